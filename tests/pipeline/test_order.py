"""The order of the pipeline's steps, and what follows from it."""

from __future__ import annotations

import inspect

import pytest

from shopfloor.pipeline import build
from tests.workbench import DECISION, LOG_DECISION, busy

STEPS = [
    *("render_errors", "authenticate", "limit", "record", "authorize", "validate", "escalate", "retry", "perform"),
]


@pytest.fixture
def database(tmp_path):
    """Use SQLite only: the order does not depend on the engine."""
    return f"sqlite://{tmp_path}/floor.db"


def test_the_steps_are_composed_in_the_order_of_the_design(shopfloor):
    step, names = shopfloor.engine._pipeline, []
    while step is not None:
        names.append(step.__module__.rpartition(".")[2])
        closure = (
            dict(zip(step.__code__.co_freevars, step.__closure__ or (), strict=True))
            if hasattr(step, "__code__")
            else {}
        )
        step = closure["next"].cell_contents if "next" in closure else None
    assert names == STEPS
    assert " ▶ ".join(STEPS).replace("_", " ") in (inspect.getdoc(build) or "")


def test_unauthenticated_call_is_neither_counted_nor_logged(open_workbench):
    shopfloor = open_workbench(settings={"rate_limits": {LOG_DECISION: 1}})
    _, token = shopfloor.seed_agent("builder", "WORKER", with_token=True)
    for _ in range(3):
        assert shopfloor.ask(LOG_DECISION, DECISION, toolset="factory").error.code == "PERMISSION_DENIED"
    assert shopfloor.log() == []
    assert shopfloor.ask(LOG_DECISION, DECISION, toolset="factory", token=token).error is None


def test_call_over_its_limit_is_not_logged_as_a_call(open_workbench):
    shopfloor = open_workbench(settings={"rate_limits": {"note": 1}})
    shopfloor.call("bench", "note", {"text": "first"})
    shopfloor.call("bench", "note", {"text": "second"})
    assert shopfloor.lines() == [
        ("invocation", "agent:local", "note"),
        ("manual", "agent:local", "note"),
        ("result", "agent:local", "note"),
        ("limited", "operator:operator", "note"),
    ]


def test_denied_caller_learns_nothing_about_the_input(shopfloor):
    assert shopfloor.call("bench", "forbidden", {"no": "such argument"}) == {
        "error": "PERMISSION_DENIED",
        "message": "Tool 'forbidden' is not allowed for agent type 'SUPERVISOR'",
    }


def test_invalid_input_is_neither_retried_nor_escalated(shopfloor):
    assert shopfloor.call("bench", "note", {"text": 5})["error"] == "INVALID_INPUT"
    assert (shopfloor.tools.seen, shopfloor.pauses, shopfloor.escalations()) == ([], [], [])


def test_failure_that_exhausts_its_retries_is_escalated_once_and_logged_once(shopfloor):
    shopfloor.tools.failures = [busy() for _ in range(4)]
    shopfloor.call("bench", "note", {"text": "x"})
    assert shopfloor.lines() == [("invocation", "agent:local", "note"), ("error", "agent:local", "note")]
    assert [escalation.count for escalation in shopfloor.escalations()] == [1]


@pytest.mark.parametrize("tool", ["note", "look", "fetch", "await"])
def test_one_call_has_one_reference_in_all_its_rows(shopfloor, tool):
    shopfloor.call("bench", tool, {"text": "x"} if tool != "await" else {"text": "x", "seconds": 0})
    shopfloor.tools.failures = [RuntimeError("no")]
    shopfloor.call("bench", tool, {"text": "y"})
    rows = shopfloor.log()
    assert len({entry.reference for entry in rows if '"y"' not in entry.context and entry.kind != "error"}) == 1
    assert len({entry.reference for entry in rows}) == 2
