"""What is not the caller's mistake reaches somebody in charge: once, with a count, and never itself."""

from __future__ import annotations

import logging

import pytest

from shopfloor.domain.times import MINUTE
from shopfloor.errors import InvalidInput, NotFound, PermissionDenied, StoreFull
from tests.workbench import busy, on_sqlite, wrong_state


def told(floor):
    return [(row.subject, row.tool, row.code, row.message, row.count) for row in floor.escalations()]


def events(floor):
    return [name for (name,) in floor.rows("SELECT name FROM event WHERE name = 'call.escalated'")]


def fail(floor, error, tool="note", caller=None):
    floor.tools.failures = [error]
    return floor.call("bench", tool, {"text": "x"}, caller)


@pytest.mark.parametrize("tool", ["note", "look", "fetch", "await"])
def test_what_nobody_expected_is_escalated(floor, tool):
    fail(floor, RuntimeError("the belt broke"), tool)
    assert told(floor) == [("agent:local", tool, "INTERNAL_ERROR", "the belt broke", 1)]
    assert "RuntimeError: the belt broke" in floor.escalations()[0].stack
    assert events(floor) == ["call.escalated"]


def test_an_error_of_ours_that_is_no_refusal_is_escalated(floor):
    fail(floor, StoreFull())
    assert told(floor) == [("agent:local", "note", "INTERNAL_ERROR", str(StoreFull()), 1)]


def test_what_outlived_its_retries_is_escalated(floor):
    floor.tools.failures = [busy() for _ in range(4)]
    floor.call("bench", "note", {"text": "x"})
    assert told(floor) == [("agent:local", "note", "TRANSIENT_ERROR", "The store is busy; try again in a moment.", 1)]


def test_what_passed_is_not(floor):
    floor.tools.failures = [busy() for _ in range(3)]
    floor.call("bench", "note", {"text": "x"})
    assert told(floor) == []


@on_sqlite
@pytest.mark.parametrize("error", [wrong_state(), InvalidInput(), NotFound(), PermissionDenied()])
def test_a_callers_mistake_never_is(floor, error):
    fail(floor, error)
    assert told(floor) == []


def test_the_escalation_has_the_reference_of_its_call(floor):
    fail(floor, RuntimeError("no"))
    assert floor.escalations()[0].reference == floor.log()[0].reference


def test_the_same_failure_within_five_minutes_only_counts(floor):
    fail(floor, RuntimeError("first"))
    floor.pass_time(4 * MINUTE)
    fail(floor, RuntimeError("second"))
    fail(floor, RuntimeError("third"))
    assert told(floor) == [("agent:local", "note", "INTERNAL_ERROR", "first", 3)]
    assert events(floor) == ["call.escalated"]
    (escalation,) = floor.escalations()
    assert escalation.last_at - escalation.first_at >= 4 * MINUTE


def test_after_five_minutes_it_is_told_again_however_often_it_came_meanwhile(floor):
    fail(floor, RuntimeError("first"))
    floor.pass_time(3 * MINUTE)
    fail(floor, RuntimeError("second"))
    floor.pass_time(3 * MINUTE)
    fail(floor, RuntimeError("third"))
    assert [(row.message, row.count) for row in floor.escalations()] == [("third", 1), ("first", 2)]
    assert events(floor) == ["call.escalated", "call.escalated"]


def test_another_agent_tool_or_code_is_another_failure(floor):
    floor.hire("builder", "WORKER", with_token=False)
    fail(floor, RuntimeError("a"))
    fail(floor, RuntimeError("b"), caller="builder")
    fail(floor, RuntimeError("c"), tool="fetch")
    floor.tools.failures = [busy() for _ in range(4)]
    floor.call("bench", "note", {"text": "x"})
    assert [(row[0], row[1], row[2], row[4]) for row in told(floor)] == [
        ("agent:local", "note", "TRANSIENT_ERROR", 1),
        ("agent:local", "fetch", "INTERNAL_ERROR", 1),
        ("agent:builder", "note", "INTERNAL_ERROR", 1),
        ("agent:local", "note", "INTERNAL_ERROR", 1),
    ]


def test_an_escalation_that_fails_does_not_escalate(floor, caplog):
    floor.execute("ALTER TABLE escalation RENAME TO elsewhere")
    with caplog.at_level(logging.ERROR, "shopfloor.calls"):
        answer = fail(floor, RuntimeError("the belt broke"))
    assert answer == {"error": "INTERNAL_ERROR", "message": "An unexpected error occurred"}
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["an escalation cannot be written"]
    assert floor.lines() == [("invocation", "agent:local", "note"), ("error", "agent:local", "note")]
    floor.execute("ALTER TABLE elsewhere RENAME TO escalation")
    assert told(floor) == []


def test_if_nothing_can_be_written_the_caller_still_gets_the_one_answer(floor, caplog):
    floor.break_the_log()
    floor.execute("ALTER TABLE escalation RENAME TO elsewhere")
    with caplog.at_level(logging.ERROR, "shopfloor.calls"):
        answer = floor.call("bench", "note", {"text": "x"})
    assert answer["error"] == "INTERNAL_ERROR"
    assert sorted(record.getMessage().partition(":")[0] for record in caplog.records) == [
        "an escalation cannot be written",
        "the log cannot be written",
    ]


def test_escalations_are_counted(floor):
    fail(floor, RuntimeError("no"))
    fail(floor, RuntimeError("no"))
    assert b'shopfloor_escalations_total{tool="note"} 2.0' in floor.floor.metrics.page()
