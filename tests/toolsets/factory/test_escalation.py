"""Failures that are not the caller's mistake are escalated, in a bounded number of mails."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from shopfloor.errors import Unavailable
from shopfloor.toolsets import factory

SECRET = "Bearer abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def break_tool(monkeypatch):
    """Make a tool fail as only a bug or an outage can."""

    def break_named_tool(name, error=None):
        tool = factory.toolset.tools[name]

        def fails(*_, **__):
            raise error or RuntimeError(f"the cable is cut; {SECRET}")

        monkeypatch.setitem(factory.toolset.tools, name, replace(tool, run=fails))

    return break_named_tool


def call_failing_tool(team, caller, tool, **input):
    code, message = team.expect_error(caller, tool, **input)
    team.dispatch()
    return code, message


def list_operator_inbox(team):
    return team.call(None, "inbox_list", limit=200)["mails"]


def test_failure_is_mailed_to_the_agents_supervisor_without_the_stack(team, break_tool):
    break_tool("mcp__system__log_decision")
    code, message = call_failing_tool(team, "w1", "mcp__system__log_decision", title="t", body="b")
    assert (code, message) == ("INTERNAL_ERROR", "An unexpected error occurred")
    (mail,) = team.list_inbox("sup")
    assert mail["subject"] == "system log decision failed for w1"
    assert (mail["fromAgentId"], mail["fromAgentType"]) == ("shopfloor", "SYSTEM")
    assert "Code: INTERNAL_ERROR" in mail["body"]
    assert "Reference: ref-" in mail["body"]
    assert "Traceback" not in mail["body"]
    assert SECRET not in mail["body"]
    assert "the cable is cut" not in mail["body"]
    assert "Message: An internal error occurred." in mail["body"]
    assert list_operator_inbox(team) == []


def test_a_supervisor_can_answer_the_agent_whose_call_failed(team, break_tool):
    break_tool("mcp__system__log_decision")
    call_failing_tool(team, "w1", "mcp__system__log_decision", title="t", body="b")
    (mail,) = team.list_inbox("sup")
    team.call("sup", "mcp__mail__reply", originalMailId=mail["id"], body="Continue without it")
    assert team.list_inbox("w1")[0]["fromAgentId"] == "sup"


@pytest.mark.parametrize(
    ("tool", "words", "input"),
    [
        ("mcp__mail__send", "mail send", {"toAgentId": "sup", "subject": "s", "body": "b"}),
        ("mcp__agent__get_task", "agent get task", {}),
        ("mcp__agent__get_epic", "agent get epic", {}),
        ("mcp__task__update_status", "task update status", {"state": "REVIEW"}),
        ("mcp__epic__update_status", "epic update status", {"epicId": "epic-1", "state": "COMPLETED"}),
    ],
)
def test_failure_of_a_critical_tool_is_always_mailed_to_the_operator_with_the_stack(
    team, break_tool, tool, words, input
):
    assert factory.toolset.tools[tool].critical
    break_tool(tool)
    call_failing_tool(team, "orc", tool, **input)
    (mail,) = list_operator_inbox(team)
    assert mail["subject"] == f"⚠️ CRITICAL: {words} failed for orc"
    assert f"Tool: {tool}\n" in mail["body"]
    assert "Traceback" in mail["body"]
    assert "the cable is cut" in mail["body"]
    assert SECRET not in mail["body"]
    (mail,) = team.list_inbox("sup")
    assert mail["subject"] == f"⚠️ CRITICAL: {words} failed for orc"
    assert "the cable is cut" not in mail["body"]


def test_five_tools_are_critical():
    assert sum(tool.critical for tool in factory.toolset.tools.values()) == 5


def test_failure_of_an_agent_without_another_supervisor_is_mailed_to_the_operator(team, break_tool):
    break_tool("mcp__agent__get_status")
    call_failing_tool(team, "sup", "mcp__agent__get_status")
    (mail,) = list_operator_inbox(team)
    assert mail["subject"] == "agent get status failed for sup"
    team.shop.retire_agent("sup")
    call_failing_tool(team, "w1", "mcp__agent__get_status")
    assert len(list_operator_inbox(team)) == 2


def test_a_callers_mistake_never_escalates(team):
    team.expect_error("w1", "mcp__mail__send", subject="s", body="b")
    team.expect_error("w1", "mcp__epic__create", title="t")
    team.expect_error("w1", "mcp__no__tool")
    team.expect_error("w1", "mcp__mail__read", mailId="mail-9")
    team.expect_error("w1", "mcp__agent__get_task")
    team.dispatch()
    assert team.list_events("call.escalated") == []


def test_outage_longer_than_the_retries_escalates_once(team, break_tool):
    break_tool("mcp__mail__reply", Unavailable())
    assert call_failing_tool(team, "w1", "mcp__mail__reply", originalMailId="mail-1", body="b")[0] == "TRANSIENT_ERROR"
    assert len(team.list_inbox("sup")) == 1
    assert len(team.list_events("call.escalated")) == 1


def test_same_failure_within_five_minutes_only_raises_the_count(team, break_tool):
    break_tool("mcp__system__log_decision")
    for _ in range(7):
        call_failing_tool(team, "w1", "mcp__system__log_decision", title="t", body="b")
    (mail,) = team.list_inbox("sup")
    assert "Seen 7 times" in mail["body"]
    assert "Seen 7 times" in team.call("sup", "mcp__mail__read", mailId=mail["id"])["body"]
    call_failing_tool(team, "w2", "mcp__system__log_decision", title="t", body="b")
    team.pass_time(301)
    call_failing_tool(team, "w1", "mcp__system__log_decision", title="t", body="b")
    assert len(team.call("sup", "mcp__mail__list_inbox", includeRead=True)["mails"]) == 3


@pytest.mark.parametrize("failures", [1000, pytest.param(5000, marks=pytest.mark.long)])
def test_thousands_of_failures_send_at_most_fifty_mails(team, break_tool, failures):
    names = [team.create_agent(f"agent-{number}") for number in range(100)]
    tools = [("mcp__system__log_decision", {"title": "t", "body": "b"}), ("mcp__agent__get_task", {})]
    for tool, _ in tools:
        break_tool(tool)

    def one(number):
        tool, input = tools[number // 100 % 2]
        team.expect_error(names[number % 100], tool, **input)

    with ThreadPoolExecutor(64) as pool:
        list(pool.map(one, range(failures)))
    team.dispatch()
    mails = len(team.list_events("mail.sent"))
    assert 2 <= mails <= 50
    assert mails == len(list_operator_inbox(team)) + team.call("sup", "mcp__mail__list_inbox")["unreadCount"]
    assert any(
        "of 91 kinds: see the log" in mail["body"]
        for mail in team.call("sup", "mcp__mail__list_inbox", limit=200)["mails"]
    )


def test_escalation_that_cannot_be_mailed_is_retried_and_never_escalates(team, break_tool, monkeypatch):
    def fail_to_send(*_, **__):
        raise RuntimeError("mailbox full")

    break_tool("mcp__system__log_decision")
    with monkeypatch.context() as broken:
        broken.setattr("shopfloor.usecases.mail.send_system_mail", fail_to_send)
        call_failing_tool(team, "w1", "mcp__system__log_decision", title="t", body="b")
        assert len(team.list_events("call.escalated")) == 1
    assert team.list_inbox("sup") == []
    team.pass_time(10)
    team.dispatch()
    assert team.list_inbox("sup")[0]["subject"] == "system log decision failed for w1"
