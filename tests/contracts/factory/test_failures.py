"""What fails is tried again, and what keeps failing is escalated."""

from __future__ import annotations

import pytest

from shopfloor.errors import CommitUnknown, StoreBusy, StoreUnreachable
from tests.workbench import busy


def test_a_passing_failure_is_tried_again_up_to_three_times_a_second_apart(floor):
    floor.tools.failures = [busy() for _ in range(3)]
    assert floor.call("bench", "note", {"text": "x"})["noted"] == "x"
    assert floor.pauses == [1.0, 1.0, 1.0]
    floor.tools.failures = [busy() for _ in range(4)]
    assert floor.call("bench", "note", {"text": "y"})["error"] == "TRANSIENT_ERROR"
    assert floor.pauses == [1.0] * 6
    assert floor.tools.seen == ["x"] * 4 + ["y"] * 4


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (StoreBusy(), 2),
        (StoreUnreachable(), 2),
        (CommitUnknown(), 2),
        (RuntimeError("connection timeout on the network"), 1),
    ],
)
def test_what_may_pass_is_told_by_its_type_never_by_its_words(floor, error, attempts):
    floor.tools.failures = [error]
    floor.call("bench", "note", {"text": "x"})
    assert floor.tools.seen == ["x"] * attempts


def test_a_failure_of_the_floor_is_escalated_with_its_details_and_its_stack(floor):
    floor.hire("builder", "WORKER", "local", with_token=False)
    floor.tools.failures = [RuntimeError("the belt broke")]
    floor.call("bench", "note", {"text": "x"}, "builder")
    (row,) = floor.escalations()
    assert (row.subject, row.tool, row.code, row.message, row.count) == (
        "agent:builder",
        "note",
        "INTERNAL_ERROR",
        "the belt broke",
        1,
    )
    assert "RuntimeError: the belt broke" in row.stack
    assert floor.rows("SELECT name FROM event WHERE name <> 'agent.changed'") == [("call.escalated",)]
