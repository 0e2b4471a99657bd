"""So many calls a minute per principal and tool, in a sliding window."""

from __future__ import annotations

import pytest

from shopfloor.domain.actors import Kind, Principal
from shopfloor.domain.times import MINUTE, SECOND
from shopfloor.errors import RateLimited
from shopfloor.pipeline import compose
from shopfloor.pipeline.limit import FEW, Windows, limit
from shopfloor.toolkit import Waiting
from tests.workbench import bare_call

BUILDER = Principal(Kind.AGENT, "builder", "WORKER")
TESTER = Principal(Kind.AGENT, "tester", "WORKER")


@pytest.fixture
def database(tmp_path):
    """The window is in memory; its rows in the log are tested in test_record.py."""
    return f"sqlite://{tmp_path}/floor.db"


class Window:
    """The step alone, with a clock that stands still."""

    def __init__(self, floor, per_minute):
        self.now = 1_000 * MINUTE
        self.hits: list[str] = []
        self._works = floor.floor.works
        self._walk = compose(
            [limit(per_minute, lambda: self.now, self._works, self.hits.append)], lambda call: "served"
        )

    def call(self, actor=BUILDER, tool="grep", waited=None):
        call = bare_call(tool)
        call.actor, call.waited, call.reference = actor, waited, 7
        try:
            return self._walk(call)
        except RateLimited as error:
            return error.facts["seconds"]


def test_only_the_call_too_many_is_refused_with_the_seconds_to_wait(floor):
    window = Window(floor, {"grep": 3})
    assert [window.call() for _ in range(4)] == ["served", "served", "served", 60]
    assert window.hits == ["grep"]


def test_the_window_slides_with_each_call(floor):
    window = Window(floor, {"grep": 2})
    window.call()
    window.now += 40 * SECOND
    window.call()
    assert window.call() == 20
    window.now += 19_500_000
    assert window.call() == 1
    window.now += 500_000
    assert window.call() == "served"
    assert window.call() == 40


def test_a_refused_call_does_not_lengthen_the_wait(floor):
    window = Window(floor, {"grep": 1})
    window.call()
    for _ in range(5):
        window.now += 10 * SECOND
        window.call()
    window.now += 10 * SECOND
    assert window.call() == "served"


def test_callers_and_tools_do_not_share_a_limit(floor):
    window = Window(floor, {"grep": 1, "read_file": 1})
    assert [window.call(BUILDER), window.call(TESTER), window.call(BUILDER, "read_file")] == ["served"] * 3
    assert [window.call(BUILDER), window.call(TESTER)] == [60, 60]


@pytest.mark.parametrize("limits", [{}, {"grep": 0}])
def test_zero_and_nothing_mean_no_limit(floor, limits):
    window = Window(floor, limits)
    assert [window.call() for _ in range(500)] == ["served"] * 500


def test_a_call_that_waits_counts_once_however_often_it_wakes(floor):
    window = Window(floor, {"grep": 1})
    waiting = Waiting("mail", 0)
    assert [window.call(), window.call(waited=waiting), window.call(waited=waiting)] == ["served"] * 3


def test_many_callers_leave_no_windows_behind():
    windows = Windows()
    for number in range(FEW + 1):
        assert windows.wait((f"a{number}", "grep"), 1, 0) is None
    assert windows.wait(("late", "grep"), 1, 2 * MINUTE) is None
    assert len(windows) == 1


def test_many_callers_at_once_are_not_gone_through_at_every_call():
    windows = Windows()
    for number in range(2 * FEW + 1):
        assert windows.wait((f"a{number}", "grep"), 1, 0) is None
    assert windows.sweeps == 1
    assert windows.wait(("a0", "grep"), 1, 0) == 60


def test_through_the_floor_the_refusal_says_how_long_to_wait(opened):
    floor = opened(settings={"rate_limits": {"mcp__agent__get_status": 2}})
    floor.hire("builder", "WORKER", with_token=False)
    answers = [floor.call("factory", "mcp__agent__get_status", {}, "builder") for _ in range(3)]
    seconds = answers[2]["error"]["details"]["seconds"]
    assert [answer["success"] for answer in answers] == [True, True, False]
    assert 30 <= seconds <= 60
    assert answers[2]["error"] == {
        "code": "RATE_LIMITED",
        "message": f"Rate limit exceeded for mcp__agent__get_status; try again in {seconds} s.",
        "details": {
            "tool": "mcp__agent__get_status",
            "seconds": seconds,
            "hint": f"Wait {seconds} s, then call again",
        },
    }
    assert floor.escalations() == []


def test_another_caller_is_served_meanwhile(opened):
    floor = opened(settings={"rate_limits": {"look": 1}})
    tokens = [floor.hire(name, "WORKER", with_token=True)[1] for name in ("builder", "tester")]
    assert [floor.ask("look", token=tokens[0]).error is None for _ in range(2)] == [True, False]
    assert floor.ask("look", token=tokens[1]).error is None


def test_setting_the_clock_back_makes_nobody_wait_longer(opened, monkeypatch):
    floor = opened(settings={"rate_limits": {"look": 1}})
    floor.ask("look")
    monkeypatch.setattr("time.time_ns", lambda: 0)
    refused = floor.ask("look")
    assert isinstance(refused.error, RateLimited)
    assert 0 < refused.error.facts["seconds"] <= 60
