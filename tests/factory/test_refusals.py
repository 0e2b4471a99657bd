"""Refusals of the factory as their reader sees them: what was wrong, in its own words, and what to do next."""

from __future__ import annotations

from typing import Any

import pytest

from shopfloor.domain.pages import write_cursor

MAIL = {"subject": "s", "body": "b"}


def refusal(team: Any, who: str, tool: str, **input: Any) -> dict[str, Any]:
    answer = team.answer(who, tool, **input)
    assert answer.error is not None, answer.body
    error: dict[str, Any] = answer.body["error"]
    return error


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ([1], "'to.0': input should be a valid string"),
        (["w2", ""], "'to.1': string should have at least 1 character"),
        ([["w2"]], "'to.0': input should be a valid string"),
        ({"w2": True}, "'to': input should be a valid list"),
        (5, "'to': input should be a valid list"),
        ([], "There is nobody at that address"),
        (["role:worker"], "There is no role 'worker'; there are SUPERVISOR, ORCHESTRATOR, WORKER"),
        (["w2", "ghost"], "Agent 'ghost' does not exist."),
        ("w2,sup", "Agent 'w2,sup' does not exist."),
        (["w2"] * 101, "'to': value should have at most 100 items, not 101"),
    ],
)
def test_an_address_that_is_none_is_told_in_one_sentence_and_nobody_gets_mail(team, to, message):
    error = refusal(team, "w1", "mcp__mail__send", to=to, **MAIL)
    assert error["message"] == message
    assert team.inbox("w2") == []


@pytest.mark.parametrize(
    ("tool", "input", "field"),
    [
        ("mcp__mail__send", {"toHuman": True, "subject": " ", "body": "b"}, "subject"),
        ("mcp__mail__send", {"toHuman": True, "subject": "s", "body": "\n\t"}, "body"),
        ("mcp__system__log_decision", {"title": "\u2003", "body": "b"}, "title"),
        ("mcp__task__create", {"title": "  "}, "title"),
        ("mcp__epic__create", {"title": "\u00a0"}, "title"),
        ("mcp__task__add_comment", {"taskId": "task-1", "body": " "}, "body"),
    ],
)
def test_text_without_words_is_refused(team, tool, input, field):
    error = refusal(team, "sup", tool, **input)
    assert (error["code"], error["message"]) == ("INVALID_INPUT", f"'{field}': needs some words")


@pytest.mark.parametrize(
    ("tool", "argument", "id", "message", "hint"),
    [
        ("mail__read", "mailId", "17", "Mail '17' does not exist", "mcp__mail__list_inbox"),
        ("mail__read", "mailId", "mail-99", "Mail mail-99 does not exist", "mcp__mail__list_inbox"),
        ("task__get", "taskId", "TASK-1", "Task 'TASK-1' not found", "task-15"),
        ("task__get", "taskId", "task-99", "Task task-99 not found", "task-15"),
        ("epic__get", "epicId", "task-1", "Epic 'task-1' not found", "epic-3"),
        ("supervisor__retire_agent", "agentId", "W1", "Agent 'W1' does not exist.", "capitals"),
    ],
)
def test_what_is_not_found_is_called_as_the_caller_did_with_where_to_look(team, tool, argument, id, message, hint):
    error = refusal(team, "sup", f"mcp__{tool}", **{argument: id})
    assert error["message"] == message
    assert error["details"][argument.removesuffix("Id")] == id
    assert hint in error["details"]["hint"]


def test_a_task_that_does_not_exist_cannot_be_waited_for_and_is_called_by_its_id(team):
    assert (
        refusal(team, "orc", "mcp__task__create", title="t", dependsOn=["task-77"])["message"]
        == "Task task-77 not found"
    )


def test_a_task_that_would_wait_for_itself_is_told_so(team):
    task = team.task()
    assert refusal(team, "orc", "mcp__task__update", taskId=task, addDependsOn=[task])["message"] == (
        "A task cannot wait for itself"
    )


def test_who_replies_to_mail_of_its_own_is_told_what_can_be_replied_to(team):
    sent = team.call("w1", "mcp__mail__send", toAgentId="w2", **MAIL)["mailId"]
    for who in ("w1", "sup"):
        error = refusal(team, who, "mcp__mail__reply", originalMailId=sent, body="b")
        assert (error["code"], error["message"]) == ("PERMISSION_DENIED", "Can only reply to mail you received")


@pytest.mark.parametrize("name", ["W1", "Local", "sUp"])
def test_no_agent_is_called_like_another_but_for_capitals(team_anywhere, name):
    team = team_anywhere
    error = refusal(team, "sup", "mcp__supervisor__create_agent", agentId=name)
    assert error["message"] == f"The name '{name}' differs from '{name.lower()}' only in capitals; choose another"


def test_a_type_that_is_none_is_answered_with_those_that_are(team):
    error = refusal(team, "sup", "mcp__supervisor__create_agent", agentId="new", type="worker")
    assert error["message"] == "There is no agent type 'worker'; there are SUPERVISOR, ORCHESTRATOR, WORKER"


LISTS = {"mcp__supervisor__list_agents": "agents", "mcp__epic__list": "epics", "mcp__task__list": "tasks"}
CURSORS = {name: write_cursor(name, "1") for name in ("agents", "epics", "tasks", "mails", "agents\0")}


@pytest.mark.parametrize("tool", LISTS)
def test_a_cursor_belongs_to_its_list(team, tool):
    assert team.answer("sup", tool, cursor=CURSORS[LISTS[tool]]).error is None
    for cursor in {*CURSORS.values(), "MTE", "", "bm9uZQ"} - {CURSORS[LISTS[tool]]}:
        assert "The cursor" in refusal(team, "sup", tool, cursor=cursor)["message"]
