"""What may work in a moment is tried again, by the type of the error."""

from __future__ import annotations

import pytest

from shopfloor.errors import CommitUnknown, StoreBusy, StoreFull, StoreUnreachable, TooBusy, Unavailable, WrongState
from shopfloor.pipeline import compose
from shopfloor.pipeline.retry import retry
from tests.workbench import bare_call, busy


@pytest.fixture
def database(tmp_path):
    """When to try again does not depend on the engine."""
    return f"sqlite://{tmp_path}/floor.db"


def failing(*errors):
    left = list(errors)

    def last(call):
        if left:
            raise left.pop(0)
        return "done"

    return last


def walk(last, limit=3):
    pauses: list[float] = []
    counted: list[str] = []
    call = bare_call("note")
    try:
        answer = compose([retry(limit, pause=1.0, sleep=pauses.append, counted=counted.append)], last)(call)
    except Exception as error:  # noqa: BLE001 - it is the answer
        answer = error
    assert counted == ["note"] * len(pauses)
    assert call.retries == len(pauses)
    return answer, pauses


def test_what_works_at_once_is_not_tried_again():
    assert walk(failing()) == ("done", [])


@pytest.mark.parametrize("kind", [Unavailable, TooBusy, StoreBusy, StoreUnreachable, CommitUnknown])
def test_a_passing_failure_is_not_seen_by_the_caller(kind):
    assert walk(failing(kind(), kind())) == ("done", [1.0, 1.0])


def test_the_third_retry_may_still_succeed():
    assert walk(failing(busy(), busy(), busy())) == ("done", [1.0, 1.0, 1.0])


def test_retry_gives_up_after_three_retries():
    errors = [busy() for _ in range(9)]
    assert walk(failing(*errors)) == (errors[3], [1.0, 1.0, 1.0])


def test_no_retries_means_one_attempt():
    error = busy()
    assert walk(failing(error), limit=0) == (error, [])


@pytest.mark.parametrize("error", [WrongState(), StoreFull(), RuntimeError("connection timeout on the network")])
def test_what_will_not_pass_is_not_tried_again_whatever_its_words(error):
    assert walk(failing(error)) == (error, [])


def test_a_refusal_after_a_passing_failure_ends_it():
    error = WrongState()
    assert walk(failing(busy(), error)) == (error, [1.0])


def test_the_floor_waits_a_second_between_attempts(floor):
    floor.tools.failures = [busy(), busy(), busy()]
    answer = floor.call("bench", "note", {"text": "x"})
    assert (answer["noted"], floor.tools.seen, floor.pauses) == ("x", ["x"] * 4, [1.0, 1.0, 1.0])
    assert floor.traces() == ["x"]


def test_how_often_and_how_long_is_a_setting(opened):
    floor = opened(settings={"retries": 1, "retry_pause": 0.25})
    floor.tools.failures = [busy(), busy()]
    assert floor.call("bench", "note", {"text": "x"})["error"] == "TRANSIENT_ERROR"
    assert floor.pauses == [0.25]


@pytest.mark.parametrize("tool", ["look", "fetch"])
def test_reading_and_reaching_out_are_tried_again_as_well(floor, tool):
    floor.tools.failures = [busy()]
    floor.call("bench", tool, {"text": "x"})
    assert floor.tools.seen == ["x", "x"]
    assert [entry.kind for entry in floor.log() if entry.kind != "manual"] == ["invocation", "result"]
