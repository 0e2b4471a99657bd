from __future__ import annotations

from dataclasses import replace

import pytest

from tests.toolsets.factory.test_escalation import break_tool  # noqa: F401 - a fixture


def log(team, caller="sup", **input):
    team.engine.database.store.flush()
    return team.call(caller, "mcp__system__list_decisions", **input)


def test_every_call_is_logged_with_its_input_and_its_result(team):
    team.call("w1", "mcp__mail__send", toAgentId="sup", subject="s", body="b")
    result, invocation = log(team, agentId="w1")["decisions"]
    assert (invocation["decision"], invocation["reasoning"]) == (
        "Invoked tool: mcp__mail__send",
        "Automatic tool invocation log",
    )
    assert invocation["context"] == {"toAgentId": "sup", "subject": "s", "body": "b"}
    assert (result["decision"], result["reasoning"]) == ("Tool result: mcp__mail__send", "Automatic tool result log")
    assert result["context"]["mailId"] == "mail-1"


def test_an_error_is_logged_with_its_message(team):
    team.expect_error("w1", "mcp__mail__read", mailId="mail-9")
    error = log(team, agentId="w1")["decisions"][0]
    assert (error["decision"], error["reasoning"]) == ("Tool error: mcp__mail__read", "Automatic tool error log")
    assert error["context"] == {"message": "Mail mail-9 does not exist", "code": "RESOURCE_NOT_FOUND"}


def test_agents_never_see_the_stack_of_a_failure(team, break_tool):  # noqa: F811
    break_tool("mcp__agent__get_status")
    team.expect_error("w1", "mcp__agent__get_status")
    error = log(team, agentId="w1")["decisions"][0]
    assert set(error["context"]) == {"message", "code", "reference"}
    assert error["context"]["message"] == "An unexpected error occurred"
    assert "cable" not in str(error)


def test_agent_records_decisions_about_its_task(team):
    task = team.create_task()
    team.call("w1", "mcp__task__claim", taskId=task)
    number = team.call("w1", "mcp__system__log_decision", title="Chose Redis", body="Scales")["logId"]
    about = {entry["id"]: entry for entry in log(team, taskId=task)["decisions"]}
    assert (about[number]["decision"], about[number]["reasoning"]) == ("Chose Redis", "Scales")


def test_log_of_a_task_has_every_event_of_its_history(team_on_each_engine):
    team = team_on_each_engine
    task = team.create_task()
    team.call("w1", "mcp__task__claim", taskId=task)
    team.call("w1", "mcp__task__update_status", state="REVIEW", comment="Look")
    team.expect_error("w2", "mcp__task__update_status", taskId=task, state="FAILED")
    team.call("sup", "mcp__task__update_status", taskId=task, state="COMPLETED")
    story = [(entry["agentId"], entry["decision"]) for entry in log(team, taskId=task)["decisions"]][::-1]
    assert story == [
        ("orc", "Invoked tool: mcp__task__create"),
        ("orc", "Tool result: mcp__task__create"),
        ("w1", "Invoked tool: mcp__task__claim"),
        ("w1", "Tool result: mcp__task__claim"),
        ("w1", "Invoked tool: mcp__task__update_status"),
        ("w1", "Tool result: mcp__task__update_status"),
        ("w2", "Invoked tool: mcp__task__update_status"),
        ("w2", "Tool error: mcp__task__update_status"),
        ("sup", "Invoked tool: mcp__task__update_status"),
        ("sup", "Tool result: mcp__task__update_status"),
    ]


def test_an_orchestrator_reads_its_own_log_only(team):
    team.call("w1", "mcp__agent__get_status")
    team.call("orc", "mcp__agent__get_status")
    assert {entry["agentId"] for entry in log(team, "orc")["decisions"]} == {"orc"}
    assert log(team, "orc", agentId="orc")["count"] > 0
    assert team.expect_error("orc", "mcp__system__list_decisions", agentId="w1")[0] == "PERMISSION_DENIED"
    assert {entry["agentId"] for entry in log(team)["decisions"]} >= {"orc", "w1"}


def test_token_is_shown_once_and_never_logged(team_on_each_engine):
    team = team_on_each_engine
    request = team.shop._request("factory", "mcp__supervisor__create_agent", {"agentId": "w3"}, "sup", "python")
    request = replace(request, idempotency_key="create-w3")
    token = team.engine.call(request).body["data"]["token"]
    secret = token.split("_", 2)[2]
    assert token.startswith("sfa_")
    assert log(team, toolName="mcp__supervisor__create_agent")["decisions"][0]["context"]["token"] == "***"
    assert team.engine.call(request).body["data"]["token"] == "***"
    kept = team.read(lambda uow: uow._connection.fetch_all("SELECT answer FROM answer WHERE answer IS NOT NULL"))
    assert [secret in answer for (answer,) in kept] == [False]


def test_long_contexts_are_truncated_and_pages_stay_small(team):
    for _ in range(60):
        team.call("w1", "mcp__system__log_decision", title="t" * 500, body="b" * 60000)
    page = team.answer("sup", "mcp__system__list_decisions", limit=200)
    assert len(page.text.encode()) < 100_000
    assert page.body["data"]["nextCursor"]


@pytest.mark.parametrize("input", [{"title": "", "body": "b"}, {"title": "t"}, {"title": "t" * 501, "body": "b"}])
def test_decision_title_and_body_have_limits(team, input):
    assert team.expect_error("w1", "mcp__system__log_decision", **input)[0] == "INVALID_INPUT"


@pytest.mark.parametrize("half", ["\ud800", "text\udfff", "\udc00\ud800"])
def test_unpaired_surrogate_in_a_rejected_call_does_not_break_the_log(team_on_each_engine, half):
    team = team_on_each_engine
    assert team.expect_error("w1", "mcp__mail__send", toAgentId="sup", subject=half, body="b")[0] == "INVALID_INPUT"
    error, invocation = log(team, agentId="w1")["decisions"]
    assert invocation["context"]["subject"] == half.encode("ascii", "backslashreplace").decode()
    assert error["context"]["code"] == "INVALID_INPUT"
    assert team.shop.call("desk", "log_search", {"full": True})["calls"]


def test_stored_entry_with_an_unpaired_surrogate_is_shown_as_text(team_on_each_engine):
    team = team_on_each_engine
    team.expect_error("w1", "mcp__mail__read", mailId="mail-9")
    kept = '{"mailId":"\\ud800"}'
    team.write(lambda uow: uow._connection.execute("UPDATE decision SET context = :kept", kept=kept))
    assert [entry["context"] for entry in log(team, agentId="w1")["decisions"]] == [kept, kept]
