"""Transient failures are retried, and lasting ones are escalated."""

from __future__ import annotations

import pytest

from shopfloor.errors import CommitOutcomeUnknown, StoreBusy, StoreUnreachable
from tests.workbench import busy


def test_transient_failure_is_retried_up_to_three_times_a_second_apart(shopfloor):
    shopfloor.tools.failures = [busy() for _ in range(3)]
    assert shopfloor.call("bench", "note", {"text": "x"})["noted"] == "x"
    assert shopfloor.pauses == [1.0, 1.0, 1.0]
    shopfloor.tools.failures = [busy() for _ in range(4)]
    assert shopfloor.call("bench", "note", {"text": "y"})["error"] == "TRANSIENT_ERROR"
    assert shopfloor.pauses == [1.0] * 6
    assert shopfloor.tools.seen == ["x"] * 4 + ["y"] * 4


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (StoreBusy(), 2),
        (StoreUnreachable(), 2),
        (CommitOutcomeUnknown(), 2),
        (RuntimeError("connection timeout on the network"), 1),
    ],
)
def test_transient_failure_is_recognized_by_type_never_by_text(shopfloor, error, attempts):
    shopfloor.tools.failures = [error]
    shopfloor.call("bench", "note", {"text": "x"})
    assert shopfloor.tools.seen == ["x"] * attempts


def test_internal_error_is_escalated_with_its_details_and_its_stack(shopfloor):
    shopfloor.seed_agent("builder", "WORKER", "local", with_token=False)
    shopfloor.tools.failures = [RuntimeError("the belt broke")]
    shopfloor.call("bench", "note", {"text": "x"}, "builder")
    (row,) = shopfloor.escalations()
    assert (row.subject, row.tool, row.code, row.message, row.count) == (
        "agent:builder",
        "note",
        "INTERNAL_ERROR",
        "the belt broke",
        1,
    )
    assert "RuntimeError: the belt broke" in row.stack
    assert shopfloor.rows("SELECT name FROM event WHERE name <> 'agent.changed'") == [("call.escalated",)]
