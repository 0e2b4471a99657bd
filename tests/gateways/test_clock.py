"""The clock of the database, by which replicas agree on leases."""

from __future__ import annotations

import time

import pytest

from shopfloor.errors import StoreUnreachable
from shopfloor.gateways import clock
from shopfloor.gateways.clock import DatabaseClock


def test_time_is_that_of_the_database_not_of_the_machine(monkeypatch):
    ahead = DatabaseClock(lambda: clock.now() + 3_600_000_000)
    assert abs(ahead.now() - clock.now() - 3_600_000_000) < 60_000_000
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert ahead.now() > 3_600_000_000


def test_without_a_database_of_its_own_the_machine_has_the_time(monkeypatch):
    own = DatabaseClock(lambda: None)
    monkeypatch.setattr(time, "time_ns", lambda: 5_000)
    assert own.now() == 5


def test_time_continues_while_the_database_is_away():
    answers = iter([1_000_000])

    def read() -> int:
        for answer in answers:
            return answer
        raise StoreUnreachable

    away = DatabaseClock(read)
    before = away.now()
    away.synchronise()
    assert away.now() >= before


def test_late_answer_does_not_change_the_time(monkeypatch):
    ticks = iter([0, 0, 10, 10_000_000, 10_000_000])
    monkeypatch.setattr(clock, "_read_boot_time", lambda: next(ticks))
    answers = iter([1_000_000, 99_000_000])
    steady = DatabaseClock(lambda: next(answers))
    steady.synchronise()
    assert steady.now() == 11_000_000


def test_time_never_stands_still_while_it_is_corrected():
    answers = iter([1_000_000_000, 999_900_000])
    corrected = DatabaseClock(lambda: next(answers))
    times = [corrected.now()]
    corrected.synchronise()
    times += [corrected.now() for _ in range(100)]
    assert times == sorted(set(times))


@pytest.mark.parametrize("step", [-3_600_000_000, 3_600_000_000])
def test_step_of_the_database_clock_is_followed(step):
    now = [1_000_000_000]
    followed = DatabaseClock(lambda: now[0])
    now[0] += step
    followed.synchronise()
    assert abs(followed.now() - now[0]) < 60_000_000
