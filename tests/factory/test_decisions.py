from __future__ import annotations

import pytest

from tests.factory.test_escalation import break_tool  # noqa: F401 - a fixture


def log(team, caller="sup", **input):
    team.floor.works.store.flush()
    return team.call(caller, "mcp__system__list_decisions", **input)


def test_every_call_leaves_what_was_asked_and_what_came_of_it(team):
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
    team.refused("w1", "mcp__mail__read", mailId="mail-9")
    error = log(team, agentId="w1")["decisions"][0]
    assert (error["decision"], error["reasoning"]) == ("Tool error: mcp__mail__read", "Automatic tool error log")
    assert error["context"] == {"message": "Mail mail-9 does not exist", "code": "RESOURCE_NOT_FOUND"}


def test_agents_never_see_the_inside_of_a_failure(team, break_tool):  # noqa: F811
    break_tool("mcp__agent__get_status")
    team.refused("w1", "mcp__agent__get_status")
    error = log(team, agentId="w1")["decisions"][0]
    assert set(error["context"]) == {"message", "code", "reference"}
    assert error["context"]["message"] == "An unexpected error occurred"
    assert "cable" not in str(error)


def test_an_agent_writes_decisions_of_its_own_about_its_task(team):
    task = team.task()
    team.call("w1", "mcp__task__claim", taskId=task)
    number = team.call("w1", "mcp__system__log_decision", title="Chose Redis", body="Scales")["logId"]
    about = {entry["id"]: entry for entry in log(team, taskId=task)["decisions"]}
    assert (about[number]["decision"], about[number]["reasoning"]) == ("Chose Redis", "Scales")


def test_the_log_of_a_task_tells_its_whole_story(team_anywhere):
    team = team_anywhere
    task = team.task()
    team.call("w1", "mcp__task__claim", taskId=task)
    team.call("w1", "mcp__task__update_status", state="REVIEW", comment="Look")
    team.refused("w2", "mcp__task__update_status", taskId=task, state="FAILED")
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
    assert team.refused("orc", "mcp__system__list_decisions", agentId="w1")[0] == "PERMISSION_DENIED"
    assert {entry["agentId"] for entry in log(team)["decisions"]} >= {"orc", "w1"}


def test_a_token_is_shown_once_and_not_in_the_log(team_anywhere):
    team = team_anywhere
    call = team.shop._call("factory", "mcp__supervisor__create_agent", {"agentId": "w3"}, "sup", "python")
    call.key = "hire-w3"
    token = team.floor.call(call).body["data"]["token"]
    secret = token.split("_", 2)[2]
    assert token.startswith("sfa_")
    assert log(team, toolName="mcp__supervisor__create_agent")["decisions"][0]["context"]["token"] == "***"
    again = team.shop._call("factory", "mcp__supervisor__create_agent", {"agentId": "w3"}, "sup", "python")
    again.key = "hire-w3"
    assert team.floor.call(again).body["data"]["token"] == "***"
    kept = team.look(lambda work: work._connection.all("SELECT answer FROM answer WHERE answer IS NOT NULL"))
    assert all(secret not in answer for (answer,) in kept)


def test_long_contexts_are_cut_and_pages_stay_small(team):
    for _ in range(60):
        team.call("w1", "mcp__system__log_decision", title="t" * 500, body="b" * 60000)
    page = team.answer("sup", "mcp__system__list_decisions", limit=200)
    assert len(page.text.encode()) < 100_000
    assert page.body["data"]["nextCursor"]


@pytest.mark.parametrize("input", [{"title": "", "body": "b"}, {"title": "t"}, {"title": "t" * 501, "body": "b"}])
def test_a_decision_has_limits(team, input):
    assert team.refused("w1", "mcp__system__log_decision", **input)[0] == "INVALID_INPUT"


@pytest.mark.parametrize("half", ["\ud800", "text\udfff", "\udc00\ud800"])
def test_half_a_character_in_a_refused_call_spoils_no_log(team_anywhere, half):
    team = team_anywhere
    assert team.refused("w1", "mcp__mail__send", toAgentId="sup", subject=half, body="b")[0] == "INVALID_INPUT"
    error, invocation = log(team, agentId="w1")["decisions"]
    assert invocation["context"]["subject"] == half.encode("ascii", "backslashreplace").decode()
    assert error["context"]["code"] == "INVALID_INPUT"
    assert team.shop.call("desk", "log_search", {"full": True})["calls"]


def test_an_entry_of_before_with_half_a_character_is_shown_as_text(team_anywhere):
    team = team_anywhere
    team.refused("w1", "mcp__mail__read", mailId="mail-9")
    kept = '{"mailId":"\\ud800"}'
    team.do(lambda work: work._connection.execute("UPDATE decision SET context = :kept", kept=kept))
    assert [entry["context"] for entry in log(team, agentId="w1")["decisions"]] == [kept, kept]
