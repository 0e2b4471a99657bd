"""Errors of the factory: what is wrong, in the caller's terms, and the next step."""

from __future__ import annotations

from typing import Any

import pytest

from shopfloor.domain.pagination import format_cursor

MAIL = {"subject": "s", "body": "b"}


def expect_error(team: Any, who: str, tool: str, **input: Any) -> dict[str, Any]:
    answer = team.answer(who, tool, **input)
    assert answer.error is not None, answer.body
    error: dict[str, Any] = answer.body["error"]
    return error


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ([1], "'to.0' must be a string"),
        (["w2", ""], "'to.1' must not be empty"),
        ([["w2"]], "'to.0' must be a string"),
        ({"w2": True}, "'to' must be a list"),
        (5, "'to' must be a list"),
        ([], "No recipients match"),
        (["role:worker"], "Unknown role 'worker'; expected one of SUPERVISOR, ORCHESTRATOR, WORKER"),
        (["w2", "ghost"], "Agent 'ghost' does not exist."),
        ("w2,sup", "Agent 'w2,sup' does not exist."),
        (["w2"] * 101, "'to' must have at most 100 items, not 101"),
    ],
)
def test_invalid_recipient_is_rejected_in_one_sentence_and_no_mail_is_sent(team, to, message):
    error = expect_error(team, "w1", "mcp__mail__send", to=to, **MAIL)
    assert error["message"] == message
    assert team.list_inbox("w2") == []


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
def test_blank_text_is_rejected(team, tool, input, field):
    error = expect_error(team, "sup", tool, **input)
    assert (error["code"], error["message"]) == ("INVALID_INPUT", f"'{field}' must not be blank")


@pytest.mark.parametrize(
    ("tool", "argument", "id", "message", "hint"),
    [
        ("mail__read", "mailId", "17", "Mail '17' does not exist", "mcp__mail__list_inbox"),
        ("mail__read", "mailId", "mail-99", "Mail mail-99 does not exist", "mcp__mail__list_inbox"),
        ("task__get", "taskId", "TASK-1", "Task 'TASK-1' not found", "task-15"),
        ("task__get", "taskId", "task-99", "Task task-99 not found", "task-15"),
        ("epic__get", "epicId", "task-1", "Epic 'task-1' not found", "epic-3"),
        ("supervisor__retire_agent", "agentId", "W1", "Agent 'W1' does not exist.", "case-sensitive"),
    ],
)
def test_not_found_error_repeats_the_callers_id_and_names_the_list_to_look_in(team, tool, argument, id, message, hint):
    error = expect_error(team, "sup", f"mcp__{tool}", **{argument: id})
    assert error["message"] == message
    assert error["details"][argument.removesuffix("Id")] == id
    assert hint in error["details"]["hint"]


def test_unknown_dependency_is_rejected_by_its_id(team):
    assert (
        expect_error(team, "orc", "mcp__task__create", title="t", dependsOn=["task-77"])["message"]
        == "Task task-77 not found"
    )


def test_task_that_depends_on_itself_is_rejected(team):
    task = team.create_task()
    assert expect_error(team, "orc", "mcp__task__update", taskId=task, addDependsOn=[task])["message"] == (
        "A task cannot depend on itself"
    )


def test_reply_to_own_mail_is_rejected_and_names_what_can_be_replied_to(team):
    sent = team.call("w1", "mcp__mail__send", toAgentId="w2", **MAIL)["mailId"]
    for who in ("w1", "sup"):
        error = expect_error(team, who, "mcp__mail__reply", originalMailId=sent, body="b")
        assert (error["code"], error["message"]) == ("PERMISSION_DENIED", "Can only reply to mail you received")


@pytest.mark.parametrize("name", ["W1", "Local", "sUp"])
def test_agent_names_differ_by_more_than_case(team_on_each_engine, name):
    team = team_on_each_engine
    error = expect_error(team, "sup", "mcp__supervisor__create_agent", agentId=name)
    assert (
        error["message"]
        == f"Agent '{name}' differs from '{name.lower()}' only in upper and lower case; choose another name"
    )


def test_unknown_type_is_rejected_with_the_known_ones(team):
    error = expect_error(team, "sup", "mcp__supervisor__create_agent", agentId="new", type="worker")
    assert error["message"] == "Unknown agent type 'worker'; expected one of SUPERVISOR, ORCHESTRATOR, WORKER"


LISTS = {"mcp__supervisor__list_agents": "agents", "mcp__epic__list": "epics", "mcp__task__list": "tasks"}
CURSORS = {name: format_cursor(name, "1") for name in ("agents", "epics", "tasks", "mails", "agents\0")}


@pytest.mark.parametrize("tool", LISTS)
def test_cursor_of_another_list_is_rejected(team, tool):
    assert team.answer("sup", tool, cursor=CURSORS[LISTS[tool]]).error is None
    for cursor in {*CURSORS.values(), "MTE", "", "bm9uZQ"} - {CURSORS[LISTS[tool]]}:
        message = expect_error(team, "sup", tool, cursor=cursor)["message"]
        assert message.startswith(("The cursor belongs to another list", "Invalid cursor"))
