"""What is not the caller's mistake reaches somebody in charge, and is never a storm."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from shopfloor.errors import Unavailable
from shopfloor.toolsets import factory
from shopfloor.usecases.escalations import CRITICAL_TOOLS

SECRET = "Bearer abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def break_tool(monkeypatch):
    """Make a tool fail as only a bug or an outage can."""

    def breaking(name, error=None):
        tool = factory.toolset.tools[name]

        def fails(*_, **__):
            raise error or RuntimeError(f"the cable is cut; {SECRET}")

        monkeypatch.setitem(factory.toolset.tools, name, replace(tool, run=fails))

    return breaking


def fail(team, caller, tool, **input):
    code, message = team.refused(caller, tool, **input)
    team.dispatch()
    return code, message


def human_inbox(team):
    return team.call(None, "inbox_list", limit=200)["mails"]


def test_a_failure_is_mailed_to_the_agents_supervisor_without_the_inside(team, break_tool):
    break_tool("mcp__system__log_decision")
    code, message = fail(team, "w1", "mcp__system__log_decision", title="t", body="b")
    assert (code, message) == ("INTERNAL_ERROR", "An unexpected error occurred")
    (mail,) = team.inbox("sup")
    assert mail["subject"] == "mcp__system__log_decision failed for w1"
    assert (mail["fromAgentId"], mail["fromAgentType"]) == ("shopfloor", "SYSTEM")
    assert "Code: INTERNAL_ERROR" in mail["body"]
    assert "Reference: ref-" in mail["body"]
    assert "Traceback" not in mail["body"]
    assert SECRET not in mail["body"]
    assert human_inbox(team) == []


def test_a_supervisor_can_answer_the_agent_whose_call_failed(team, break_tool):
    break_tool("mcp__system__log_decision")
    fail(team, "w1", "mcp__system__log_decision", title="t", body="b")
    (mail,) = team.inbox("sup")
    team.call("sup", "mcp__mail__reply", originalMailId=mail["id"], body="Go on without it")
    assert team.inbox("w1")[0]["fromAgentId"] == "sup"


@pytest.mark.parametrize(
    ("tool", "input"),
    [
        ("mcp__mail__send", {"toAgentId": "sup", "subject": "s", "body": "b"}),
        ("mcp__agent__get_task", {}),
        ("mcp__agent__get_epic", {}),
        ("mcp__task__update_status", {"state": "REVIEW"}),
        ("mcp__epic__update_status", {"epicId": "epic-1", "state": "COMPLETED"}),
    ],
)
def test_a_failure_of_a_critical_tool_always_goes_to_the_person_with_the_stack(team, break_tool, tool, input):
    assert tool in CRITICAL_TOOLS
    break_tool(tool)
    fail(team, "orc", tool, **input)
    (mail,) = human_inbox(team)
    assert mail["subject"] == f"⚠️ CRITICAL: {tool} failed for orc"
    assert "Traceback" in mail["body"]
    assert "the cable is cut" in mail["body"]
    assert SECRET not in mail["body"]
    assert team.inbox("sup") == []


def test_five_tools_are_critical():
    assert len(CRITICAL_TOOLS) == 5


def test_who_has_no_supervisor_but_itself_is_reported_to_the_person(team, break_tool):
    break_tool("mcp__agent__get_status")
    fail(team, "sup", "mcp__agent__get_status")
    (mail,) = human_inbox(team)
    assert mail["subject"] == "mcp__agent__get_status failed for sup"
    team.shop.retire("sup")
    fail(team, "w1", "mcp__agent__get_status")
    assert len(human_inbox(team)) == 2


def test_a_callers_mistake_never_escalates(team):
    team.refused("w1", "mcp__mail__send", subject="s", body="b")
    team.refused("w1", "mcp__epic__create", title="t")
    team.refused("w1", "mcp__no__tool")
    team.refused("w1", "mcp__mail__read", mailId="mail-9")
    team.refused("w1", "mcp__agent__get_task")
    team.dispatch()
    assert team.events("call.escalated") == []


def test_an_outage_that_outlives_its_retries_escalates_once(team, break_tool):
    break_tool("mcp__mail__reply", Unavailable())
    assert fail(team, "w1", "mcp__mail__reply", originalMailId="mail-1", body="b")[0] == "TRANSIENT_ERROR"
    assert len(team.inbox("sup")) == 1
    assert len(team.events("call.escalated")) == 1


def test_the_same_failure_within_five_minutes_only_counts(team, break_tool):
    break_tool("mcp__system__log_decision")
    for _ in range(7):
        fail(team, "w1", "mcp__system__log_decision", title="t", body="b")
    (mail,) = team.inbox("sup")
    assert "Seen 7 times" in mail["body"]
    assert "Seen 7 times" in team.call("sup", "mcp__mail__read", mailId=mail["id"])["body"]
    fail(team, "w2", "mcp__system__log_decision", title="t", body="b")
    team.skip(301)
    fail(team, "w1", "mcp__system__log_decision", title="t", body="b")
    assert len(team.call("sup", "mcp__mail__list_inbox", includeRead=True)["mails"]) == 3


def test_five_thousand_failures_are_at_most_fifty_mails(team, break_tool):
    names = [team.hire(f"agent-{number}") for number in range(100)]
    tools = [("mcp__system__log_decision", {"title": "t", "body": "b"}), ("mcp__agent__get_task", {})]
    for tool, _ in tools:
        break_tool(tool)

    def one(number):
        tool, input = tools[number // 100 % 2]
        team.refused(names[number % 100], tool, **input)

    with ThreadPoolExecutor(64) as pool:
        list(pool.map(one, range(5000)))
    team.dispatch()
    mails = len(team.events("mail.sent"))
    assert 2 <= mails <= 50
    assert mails == len(human_inbox(team)) + team.call("sup", "mcp__mail__list_inbox")["unreadCount"]
    assert any(
        "of 91 kinds: see the log" in mail["body"]
        for mail in team.call("sup", "mcp__mail__list_inbox", limit=200)["mails"]
    )


def test_an_escalation_that_cannot_be_mailed_waits_and_does_not_escalate_itself(team, break_tool, monkeypatch):
    def full(*_, **__):
        raise RuntimeError("no room for mail")

    break_tool("mcp__system__log_decision")
    with monkeypatch.context() as broken:
        broken.setattr("shopfloor.usecases.mail.tell", full)
        fail(team, "w1", "mcp__system__log_decision", title="t", body="b")
        assert len(team.events("call.escalated")) == 1
    assert team.inbox("sup") == []
    team.skip(10)
    team.dispatch()
    assert team.inbox("sup")[0]["subject"] == "mcp__system__log_decision failed for w1"
