"""The steps stand in one order, and the order is the meaning."""

from __future__ import annotations

import ast
import inspect

import pytest

from shopfloor import app, pipeline
from shopfloor.pipeline import compose
from tests.workbench import DECISION, LOG_DECISION, bare_call, busy

STEPS = ["refuse", "identify", "limit", "record", "permit", "validate", "escalate", "retry", "perform"]


@pytest.fixture
def database(tmp_path):
    """The order does not depend on the engine."""
    return f"sqlite://{tmp_path}/floor.db"


def step(name, path):
    def walked(call, next):
        path.append(f"{name} in")
        value = next(call)
        path.append(f"{name} out")
        return value

    return walked


def test_a_call_walks_through_the_steps_and_back():
    path: list[str] = []

    def last(call):
        path.append(call.name)
        return "answer"

    walk = compose([step("first", path), step("second", path)], last)
    assert walk(bare_call("note")) == "answer"
    assert path == ["first in", "second in", "note", "second out", "first out"]


def test_without_steps_there_is_only_the_last_one():
    assert compose([], lambda call: call.name)(bare_call("note")) == "note"


def test_the_floor_composes_the_steps_in_the_order_of_the_design():
    (composed,) = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(app)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "compose"
    ]
    steps, last = composed.args
    assert isinstance(steps, ast.List)
    names = [
        made.func.id.lower()
        for made in [*steps.elts, last]
        if isinstance(made, ast.Call) and isinstance(made.func, ast.Name)
    ]
    assert names == STEPS
    assert " ▶ ".join(STEPS) in (inspect.getdoc(pipeline) or "")


def test_who_is_not_known_is_not_counted_and_not_logged(opened):
    floor = opened(settings={"rate_limits": {LOG_DECISION: 1}})
    _, token = floor.hire("builder", "WORKER", with_token=True)
    for _ in range(3):
        assert floor.ask(LOG_DECISION, DECISION, toolset="factory").error.code == "PERMISSION_DENIED"
    assert floor.log() == []
    assert floor.ask(LOG_DECISION, DECISION, toolset="factory", token=token).error is None


def test_a_call_over_its_limit_never_reaches_the_log_as_a_call(opened):
    floor = opened(settings={"rate_limits": {"note": 1}})
    floor.call("bench", "note", {"text": "first"})
    floor.call("bench", "note", {"text": "second"})
    assert floor.lines() == [
        ("invocation", "agent:local", "note"),
        ("manual", "agent:local", "note"),
        ("result", "agent:local", "note"),
        ("limited", "operator:operator", "note"),
    ]


def test_who_may_not_call_is_not_told_what_the_input_should_be(floor):
    assert floor.call("bench", "forbidden", {"no": "such argument"}) == {
        "error": "PERMISSION_DENIED",
        "message": "Tool 'forbidden' is not allowed for agent type 'SUPERVISOR'",
    }


def test_bad_input_is_neither_tried_again_nor_escalated(floor):
    assert floor.call("bench", "note", {"text": 5})["error"] == "INVALID_INPUT"
    assert (floor.tools.seen, floor.pauses, floor.escalations()) == ([], [], [])


def test_a_failure_that_outlives_its_retries_is_escalated_once_and_logged_once(floor):
    floor.tools.failures = [busy() for _ in range(4)]
    floor.call("bench", "note", {"text": "x"})
    assert floor.lines() == [("invocation", "agent:local", "note"), ("error", "agent:local", "note")]
    assert [escalation.count for escalation in floor.escalations()] == [1]


@pytest.mark.parametrize("tool", ["note", "look", "fetch", "await"])
def test_one_call_has_one_reference_in_all_its_rows(floor, tool):
    floor.call("bench", tool, {"text": "x"} if tool != "await" else {"text": "x", "seconds": 0})
    floor.tools.failures = [RuntimeError("no")]
    floor.call("bench", tool, {"text": "y"})
    rows = floor.log()
    assert len({entry.reference for entry in rows if '"y"' not in entry.context and entry.kind != "error"}) == 1
    assert len({entry.reference for entry in rows}) == 2
