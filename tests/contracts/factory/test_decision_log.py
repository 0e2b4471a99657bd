"""mcp__system__log_decision, and the log rows of every call."""

from __future__ import annotations

import json
import re

import pytest

from tests.workbench import DECISION, LOG_DECISION, STATUS, on_sqlite


def summarize_entry(entry):
    return (entry.kind, entry.decision, entry.reasoning, json.loads(entry.context))


def test_agent_records_a_decision(shopfloor):
    shopfloor.seed_agent("builder", "WORKER", with_token=False)
    data = shopfloor.call("factory", LOG_DECISION, DECISION, "builder")["data"]
    assert re.fullmatch(r"log-\d+", data["logId"])
    (entry,) = [entry for entry in shopfloor.log() if entry.kind == "manual"]
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
def test_a_decision_needs_a_title_and_a_body(shopfloor, input, field):
    error = shopfloor.call("factory", LOG_DECISION, input)["error"]
    assert (error["code"], error["details"]["field"]) == ("INVALID_INPUT", field)
    assert shopfloor.traces() == []


@pytest.mark.parametrize("role", ["SUPERVISOR", "ORCHESTRATOR", "WORKER"])
def test_every_type_may_record_decisions(shopfloor, role):
    shopfloor.seed_agent("builder", role, with_token=False)
    assert shopfloor.call("factory", LOG_DECISION, DECISION, "builder")["success"] is True


@pytest.mark.parametrize(("tool", "input"), [(STATUS, {}), (LOG_DECISION, DECISION)])
def test_call_logs_an_invocation_and_a_result(shopfloor, tool, input):
    data = shopfloor.call("factory", tool, input)["data"]
    assert [summarize_entry(entry) for entry in shopfloor.log() if entry.kind != "manual"] == [
        ("invocation", f"Invoked tool: {tool}", "Automatic tool invocation log", input),
        ("result", f"Tool result: {tool}", "Automatic tool result log", data),
    ]


def test_failed_call_logs_an_error_with_its_message_and_its_stack(shopfloor):
    shopfloor.tools.failures = [RuntimeError("the belt broke")]
    shopfloor.call("bench", "note", {"text": "x"})
    invocation, error = shopfloor.log()
    assert summarize_entry(invocation)[0] == "invocation"
    assert summarize_entry(error) == (
        "error",
        "Tool error: note",
        "Automatic tool error log",
        {"message": "RuntimeError: the belt broke", "code": "INTERNAL_ERROR"},
    )
    assert "RuntimeError: the belt broke" in shopfloor.stack(error)
