"""mcp__system__log_decision, and the rows that every call leaves."""

from __future__ import annotations

import json
import re

import pytest

from tests.workbench import DECISION, LOG_DECISION, STATUS, on_sqlite


def told(entry):
    return (entry.kind, entry.decision, entry.reasoning, json.loads(entry.context))


def test_an_agent_writes_a_decision_of_its_own(floor):
    floor.hire("builder", "WORKER", with_token=False)
    data = floor.call("factory", LOG_DECISION, DECISION, "builder")["data"]
    assert re.fullmatch(r"log-\d+", data["logId"])
    (entry,) = [entry for entry in floor.log() if entry.kind == "manual"]
    assert (f"log-{entry.id}", entry.subject, entry.decision, entry.reasoning) == (
        data["logId"],
        "agent:builder",
        DECISION["title"],
        DECISION["body"],
    )


@on_sqlite
@pytest.mark.parametrize(
    ("input", "field"),
    [
        ({}, "title"),
        ({"title": "x"}, "body"),
        ({"body": "x"}, "title"),
        ({"title": "", "body": "x"}, "title"),
        ({"title": "x" * 501, "body": "x"}, "title"),
        ({"title": "x", "body": "x" * 65_537}, "body"),
        ({"title": 5, "body": "x"}, "title"),
        ({"title": "x", "body": None}, "body"),
        ({"title": "x", "body": "x", "agentId": "boss"}, "agentId"),
    ],
    ids=range(9),
)
def test_a_decision_needs_a_title_and_a_body(floor, input, field):
    error = floor.call("factory", LOG_DECISION, input)["error"]
    assert (error["code"], error["details"]["field"]) == ("INVALID_INPUT", field)
    assert floor.traces() == []


@pytest.mark.parametrize("role", ["SUPERVISOR", "ORCHESTRATOR", "WORKER"])
def test_every_type_may_write_decisions(floor, role):
    floor.hire("builder", role, with_token=False)
    assert floor.call("factory", LOG_DECISION, DECISION, "builder")["success"] is True


@pytest.mark.parametrize(("tool", "input"), [(STATUS, {}), (LOG_DECISION, DECISION)])
def test_a_call_leaves_an_invocation_and_a_result(floor, tool, input):
    data = floor.call("factory", tool, input)["data"]
    assert [told(entry) for entry in floor.log() if entry.kind != "manual"] == [
        ("invocation", f"Invoked tool: {tool}", "Automatic tool invocation log", input),
        ("result", f"Tool result: {tool}", "Automatic tool result log", data),
    ]


def test_a_failed_call_leaves_an_error_with_its_message_and_its_stack(floor):
    floor.tools.failures = [RuntimeError("the belt broke")]
    floor.call("bench", "note", {"text": "x"})
    invocation, error = floor.log()
    assert told(invocation)[0] == "invocation"
    assert told(error) == (
        "error",
        "Tool error: note",
        "Automatic tool error log",
        {"message": "RuntimeError: the belt broke", "code": "INTERNAL_ERROR"},
    )
    assert "RuntimeError: the belt broke" in floor.stack(error)
