"""Transient errors are retried. The type of the error decides."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from shopfloor.domain.times import SECOND
from shopfloor.errors import (
    CommitOutcomeUnknown,
    InvalidState,
    StoreBusy,
    StoreFull,
    StoreUnreachable,
    TooBusy,
    Unavailable,
)
from shopfloor.pipeline.retry import retry
from tests.workbench import bare_context, busy


@pytest.fixture
def database(tmp_path):
    """Use SQLite only: retries do not depend on the engine."""
    return f"sqlite://{tmp_path}/floor.db"


def fail_with(*errors):
    left = list(errors)

    def last(call):
        if left:
            raise left.pop(0)
        return "done"

    return last


def run_step(last, limit=3, seconds_per_attempt=0):
    pauses: list[float] = []
    counted: list[str] = []
    context = bare_context("note")
    try:
        clock = count(step=seconds_per_attempt * SECOND)
        step = retry(last, limit, pause=1.0, sleep=pauses.append, elapsed=lambda: next(clock), count=counted.append)
        answer = step(context)
    except Exception as error:  # noqa: BLE001 - it is the answer
        answer = error
    assert counted == ["note"] * len(pauses)
    assert context.record.retries == len(pauses)
    return answer, pauses


def test_successful_call_is_not_retried():
    assert run_step(fail_with()) == ("done", [])


@pytest.mark.parametrize(("seconds", "pauses"), [(1, [1.0]), (2, [])])
def test_caller_does_not_wait_long_for_a_store_that_is_away(seconds, pauses):
    answer, paused = run_step(fail_with(*[StoreUnreachable() for _ in range(4)]), seconds_per_attempt=seconds)
    assert isinstance(answer, StoreUnreachable)
    assert paused == pauses


def test_slow_attempts_at_a_busy_store_are_repeated():
    assert run_step(fail_with(StoreBusy(), StoreBusy()), seconds_per_attempt=5) == ("done", [1.0, 1.0])


def test_unknown_outcome_is_reported_even_if_the_store_is_away_afterwards():
    answer, _ = run_step(fail_with(CommitOutcomeUnknown(), *[StoreUnreachable() for _ in range(3)]))
    assert isinstance(answer, CommitOutcomeUnknown)


@pytest.mark.parametrize("kind", [Unavailable, TooBusy, StoreBusy, StoreUnreachable, CommitOutcomeUnknown])
def test_transient_failure_is_hidden_from_the_caller(kind):
    assert run_step(fail_with(kind(), kind())) == ("done", [1.0, 1.0])


def test_the_third_retry_may_still_succeed():
    assert run_step(fail_with(busy(), busy(), busy())) == ("done", [1.0, 1.0, 1.0])


def test_retry_gives_up_after_three_retries():
    errors = [busy() for _ in range(9)]
    assert run_step(fail_with(*errors)) == (errors[3], [1.0, 1.0, 1.0])


def test_no_retries_means_one_attempt():
    error = busy()
    assert run_step(fail_with(error), limit=0) == (error, [])


@pytest.mark.parametrize("error", [InvalidState(), StoreFull(), RuntimeError("connection timeout on the network")])
def test_permanent_failure_is_not_retried_whichever_message_it_has(error):
    assert run_step(fail_with(error)) == (error, [])


def test_rejection_after_a_transient_failure_ends_the_retries():
    error = InvalidState()
    assert run_step(fail_with(busy(), error)) == (error, [1.0])


def test_attempts_are_a_second_apart(shopfloor):
    shopfloor.tools.failures = [busy(), busy(), busy()]
    answer = shopfloor.call("bench", "note", {"text": "x"})
    assert (answer["noted"], shopfloor.tools.seen, shopfloor.pauses) == ("x", ["x"] * 4, [1.0, 1.0, 1.0])
    assert shopfloor.traces() == ["x"]


def test_number_and_interval_of_retries_are_settings(open_workbench):
    shopfloor = open_workbench(settings={"retries": 1, "retry_pause": 0.25})
    shopfloor.tools.failures = [busy(), busy()]
    assert shopfloor.call("bench", "note", {"text": "x"})["error"] == "TRANSIENT_ERROR"
    assert shopfloor.pauses == [0.25]


@pytest.mark.parametrize("tool", ["look", "fetch"])
def test_read_only_and_outside_tools_are_retried(shopfloor, tool):
    shopfloor.tools.failures = [busy()]
    shopfloor.call("bench", tool, {"text": "x"})
    assert shopfloor.tools.seen == ["x", "x"]
    assert [entry.kind for entry in shopfloor.log() if entry.kind != "manual"] == ["invocation", "result"]


def test_retried_outside_tool_has_one_invocation_and_leaves_no_row_open(shopfloor):
    shopfloor.tools.failures = [busy(), busy()]
    shopfloor.call("bench", "fetch", {"text": "x"})
    assert [entry.kind for entry in shopfloor.log() if entry.kind != "manual"] == ["invocation", "result"]
    assert shopfloor.rows("SELECT count(*) FROM decision WHERE process IS NOT NULL") == [(0,)]


def test_call_of_a_caller_that_hung_up_is_not_retried():
    error = busy()
    context = bare_context("note")
    abandoned = context._replace(request=replace(context.request, is_abandoned=lambda: True))
    with pytest.raises(type(error)):
        retry(fail_with(error), 3, pause=0, sleep=lambda _: None, elapsed=lambda: 0, count=lambda _: None)(abandoned)
    assert context.record.retries == 0
