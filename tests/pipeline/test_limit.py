"""The rate limit per principal and tool, in a sliding window of a minute."""

from __future__ import annotations

import pytest

from shopfloor.domain.principals import Kind, Principal
from shopfloor.domain.times import MINUTE, SECOND
from shopfloor.errors import RateLimited
from shopfloor.pipeline.limit import SWEEP_THRESHOLD, Windows, limit
from shopfloor.toolkit import AuthenticatedRequest, Waiting
from tests.workbench import bare_record, bare_request

BUILDER = Principal(Kind.AGENT, "builder", "WORKER")
TESTER = Principal(Kind.AGENT, "tester", "WORKER")


@pytest.fixture
def database(tmp_path):
    """Use SQLite only: the window is in memory. test_record.py tests its log rows."""
    return f"sqlite://{tmp_path}/floor.db"


class Window:
    """The limit step alone, with a fixed clock."""

    def __init__(self, shopfloor, per_minute):
        self.now = 1_000 * MINUTE
        self.hits: list[str] = []
        self._database = shopfloor.engine.database
        self._step = limit(lambda call: "served", per_minute, lambda: self.now, self._database, self.hits.append)

    def call(self, actor=BUILDER, tool="grep", resumed=None):
        call = AuthenticatedRequest(bare_request(tool), bare_record(), actor, resumed)
        try:
            return self._step(call)
        except RateLimited as error:
            return error.facts["seconds"]


def test_call_over_the_limit_is_rejected_with_the_seconds_to_wait(shopfloor):
    window = Window(shopfloor, {"grep": 3})
    assert [window.call() for _ in range(4)] == ["served", "served", "served", 60]
    assert window.hits == ["grep"]


def test_the_window_slides_with_each_call(shopfloor):
    window = Window(shopfloor, {"grep": 2})
    window.call()
    window.now += 40 * SECOND
    window.call()
    assert window.call() == 20
    window.now += 19_500_000
    assert window.call() == 1
    window.now += 500_000
    assert window.call() == "served"
    assert window.call() == 40


def test_rejected_call_does_not_lengthen_the_wait(shopfloor):
    window = Window(shopfloor, {"grep": 1})
    window.call()
    for _ in range(5):
        window.now += 10 * SECOND
        window.call()
    window.now += 10 * SECOND
    assert window.call() == "served"


def test_callers_and_tools_do_not_share_a_limit(shopfloor):
    window = Window(shopfloor, {"grep": 1, "read_file": 1})
    assert [window.call(BUILDER), window.call(TESTER), window.call(BUILDER, "read_file")] == ["served"] * 3
    assert [window.call(BUILDER), window.call(TESTER)] == [60, 60]


@pytest.mark.parametrize("limits", [{}, {"grep": 0}])
def test_zero_and_none_mean_no_limit(shopfloor, limits):
    window = Window(shopfloor, limits)
    assert [window.call() for _ in range(500)] == ["served"] * 500


def test_waiting_call_counts_once_however_often_it_is_resumed(shopfloor):
    window = Window(shopfloor, {"grep": 1})
    waiting = Waiting("mail", 0)
    assert [window.call(), window.call(resumed=waiting), window.call(resumed=waiting)] == ["served"] * 3


def test_windows_of_past_callers_are_dropped():
    windows = Windows()
    for number in range(SWEEP_THRESHOLD + 1):
        assert windows.add((f"a{number}", "grep"), 1, 0) is None
    assert windows.add(("late", "grep"), 1, 2 * MINUTE) is None
    assert len(windows) == 1


def test_sweeps_are_rare_while_many_callers_are_active():
    windows = Windows()
    for number in range(2 * SWEEP_THRESHOLD + 1):
        assert windows.add((f"a{number}", "grep"), 1, 0) is None
    assert windows.sweeps == 1
    assert windows.add(("a0", "grep"), 1, 0) == 60


def test_rate_limit_error_names_the_seconds_to_wait(open_workbench):
    shopfloor = open_workbench(settings={"rate_limits": {"mcp__agent__get_status": 2}})
    shopfloor.seed_agent("builder", "WORKER", with_token=False)
    answers = [shopfloor.call("factory", "mcp__agent__get_status", {}, "builder") for _ in range(3)]
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
    assert shopfloor.escalations() == []


def test_limit_of_one_caller_does_not_affect_another(open_workbench):
    shopfloor = open_workbench(settings={"rate_limits": {"look": 1}})
    tokens = [shopfloor.seed_agent(name, "WORKER", with_token=True)[1] for name in ("builder", "tester")]
    assert [shopfloor.ask("look", token=tokens[0]).error is None for _ in range(2)] == [True, False]
    assert shopfloor.ask("look", token=tokens[1]).error is None


def test_setting_the_clock_back_does_not_lengthen_the_wait(open_workbench, monkeypatch):
    shopfloor = open_workbench(settings={"rate_limits": {"look": 1}})
    shopfloor.ask("look")
    monkeypatch.setattr("time.time_ns", lambda: 0)
    refused = shopfloor.ask("look")
    assert isinstance(refused.error, RateLimited)
    assert 0 < refused.error.facts["seconds"] <= 60
