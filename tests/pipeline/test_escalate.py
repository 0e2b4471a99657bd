"""Failures that are not the caller's mistake are escalated once, with a count. Escalations never escalate."""

from __future__ import annotations

import logging

import pytest

from shopfloor.domain.times import MINUTE
from shopfloor.errors import InvalidInput, NotFound, PermissionDenied, StoreFull
from tests.workbench import busy, on_sqlite, wrong_state


def list_escalations(shopfloor):
    return [(row.subject, row.tool, row.code, row.message, row.count) for row in shopfloor.escalations()]


def list_escalation_events(shopfloor):
    return [name for (name,) in shopfloor.rows("SELECT name FROM event WHERE name = 'call.escalated'")]


def call_and_fail(shopfloor, error, tool="note", caller=None):
    shopfloor.tools.failures = [error]
    return shopfloor.call("bench", tool, {"text": "x"}, caller)


@pytest.mark.parametrize("tool", ["note", "look", "fetch", "await"])
def test_unexpected_error_is_escalated(shopfloor, tool):
    call_and_fail(shopfloor, RuntimeError("the belt broke"), tool)
    assert list_escalations(shopfloor) == [("agent:local", tool, "INTERNAL_ERROR", "the belt broke", 1)]
    assert "RuntimeError: the belt broke" in shopfloor.escalations()[0].stack
    assert list_escalation_events(shopfloor) == ["call.escalated"]


def test_server_error_is_escalated(shopfloor):
    call_and_fail(shopfloor, StoreFull())
    assert list_escalations(shopfloor) == [("agent:local", "note", "TRANSIENT_ERROR", str(StoreFull()), 1)]


def test_error_that_exhausts_its_retries_is_escalated(shopfloor):
    shopfloor.tools.failures = [busy() for _ in range(4)]
    shopfloor.call("bench", "note", {"text": "x"})
    assert list_escalations(shopfloor) == [
        ("agent:local", "note", "TRANSIENT_ERROR", "The store is busy; retry shortly.", 1)
    ]


def test_error_that_succeeds_on_retry_is_not_escalated(shopfloor):
    shopfloor.tools.failures = [busy() for _ in range(3)]
    shopfloor.call("bench", "note", {"text": "x"})
    assert list_escalations(shopfloor) == []


@on_sqlite
@pytest.mark.parametrize("error", [wrong_state(), InvalidInput(), NotFound(), PermissionDenied()])
def test_callers_mistake_is_never_escalated(shopfloor, error):
    call_and_fail(shopfloor, error)
    assert list_escalations(shopfloor) == []


def test_the_escalation_has_the_reference_of_its_call(shopfloor):
    call_and_fail(shopfloor, RuntimeError("no"))
    assert shopfloor.escalations()[0].reference == shopfloor.log()[0].reference


def test_same_failure_within_five_minutes_only_raises_the_count(shopfloor):
    call_and_fail(shopfloor, RuntimeError("first"))
    shopfloor.pass_time(4 * MINUTE)
    call_and_fail(shopfloor, RuntimeError("second"))
    call_and_fail(shopfloor, RuntimeError("third"))
    assert list_escalations(shopfloor) == [("agent:local", "note", "INTERNAL_ERROR", "first", 3)]
    assert list_escalation_events(shopfloor) == ["call.escalated"]
    (escalation,) = shopfloor.escalations()
    assert escalation.last_at - escalation.first_at >= 4 * MINUTE


def test_same_failure_after_five_minutes_escalates_again(shopfloor):
    call_and_fail(shopfloor, RuntimeError("first"))
    shopfloor.pass_time(3 * MINUTE)
    call_and_fail(shopfloor, RuntimeError("second"))
    shopfloor.pass_time(3 * MINUTE)
    call_and_fail(shopfloor, RuntimeError("third"))
    assert [(row.message, row.count) for row in shopfloor.escalations()] == [("third", 1), ("first", 2)]
    assert list_escalation_events(shopfloor) == ["call.escalated", "call.escalated"]


def test_another_agent_tool_or_code_is_escalated_separately(shopfloor):
    shopfloor.seed_agent("builder", "WORKER", with_token=False)
    call_and_fail(shopfloor, RuntimeError("a"))
    call_and_fail(shopfloor, RuntimeError("b"), caller="builder")
    call_and_fail(shopfloor, RuntimeError("c"), tool="fetch")
    shopfloor.tools.failures = [busy() for _ in range(4)]
    shopfloor.call("bench", "note", {"text": "x"})
    assert [(row[0], row[1], row[2], row[4]) for row in list_escalations(shopfloor)] == [
        ("agent:local", "note", "TRANSIENT_ERROR", 1),
        ("agent:local", "fetch", "INTERNAL_ERROR", 1),
        ("agent:builder", "note", "INTERNAL_ERROR", 1),
        ("agent:local", "note", "INTERNAL_ERROR", 1),
    ]


def test_an_escalation_that_fails_does_not_escalate(shopfloor, caplog):
    shopfloor.execute("ALTER TABLE escalation RENAME TO elsewhere")
    with caplog.at_level(logging.ERROR, "shopfloor.calls"):
        answer = call_and_fail(shopfloor, RuntimeError("the belt broke"))
    assert answer == {"error": "INTERNAL_ERROR", "message": "An unexpected error occurred"}
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["cannot write an escalation"]
    assert shopfloor.lines() == [("invocation", "agent:local", "note"), ("error", "agent:local", "note")]
    shopfloor.execute("ALTER TABLE elsewhere RENAME TO escalation")
    assert list_escalations(shopfloor) == []


def test_caller_gets_the_error_when_the_escalation_cannot_be_written(shopfloor, caplog):
    shopfloor.break_log()
    shopfloor.execute("ALTER TABLE escalation RENAME TO elsewhere")
    with caplog.at_level(logging.ERROR, "shopfloor.calls"):
        answer = shopfloor.call("bench", "note", {"text": "x"})
    assert answer["error"] == "INTERNAL_ERROR"
    assert sorted(record.getMessage().partition(":")[0] for record in caplog.records) == [
        "cannot write an escalation",
        "cannot write the log",
    ]


def test_escalations_are_counted(shopfloor):
    call_and_fail(shopfloor, RuntimeError("no"))
    call_and_fail(shopfloor, RuntimeError("no"))
    assert b'shopfloor_escalations_total{tool="note"} 2.0' in shopfloor.engine.telemetry.metrics.render()
