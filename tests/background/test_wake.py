"""Those who wait for a topic hear when it stirs. The rows are the truth, but a hint is never missed."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from shopfloor.background.wake import Wake
from tests.workbench import PATIENCE, together, until

FOREVER = PATIENCE * 10


def at_once(deed):
    """The deed ends long before anybody's patience does."""
    thread = threading.Thread(target=deed, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it was not woken"


def note(floor, text="x"):
    floor.call("bench", "note", {"text": text})


def test_nobody_waits_longer_than_asked(floor):
    wake = floor.floor.wake
    wake.wait_here("log", wake.mark(), 0)
    wake.wait_here("log", wake.mark(), -5)
    asyncio.run(wake.wait("log", wake.mark(), 0.001))


def test_what_stirred_since_the_mark_is_not_waited_for(floor):
    wake = floor.floor.wake
    mark = wake.mark()
    note(floor)
    until(lambda: wake.mark() > mark)
    at_once(lambda: wake.wait_here("log", mark, FOREVER))
    at_once(lambda: asyncio.run(wake.wait("log", mark, FOREVER)))


def test_another_topic_does_not_wake(floor):
    wake = Wake(floor.floor.works)
    mark = wake.mark()
    wake._heard(frozenset({"log"}))
    began = time.monotonic()
    wake.wait_here("mail", mark, 0.05)
    assert time.monotonic() - began >= 0.05


@pytest.mark.parametrize("in_between", ["rouse", "look"])
def test_who_has_looked_and_is_about_to_wait_is_woken_with_everybody(floor, in_between):
    wake = floor.floor.wake
    mark = wake.mark()
    if in_between == "rouse":
        wake.rouse()
    elif floor.floor.works.store.engine == "postgres":
        wake._heard(frozenset())  # what a replica is told after its connection was lost
    else:
        note(floor)
        until(lambda: wake.mark() > mark)
    at_once(lambda: wake.wait_here("log", mark, FOREVER))


def test_who_waits_already_is_woken_with_everybody(floor):
    wake = Wake(floor.floor.works)  # not started: nobody else rouses
    threads = [
        threading.Thread(target=wake.wait_here, args=(topic, wake.mark(), FOREVER), daemon=True) for topic in "ab"
    ]
    for thread in threads:
        thread.start()
    until(lambda: len(wake._waiting) == 2)
    wake.rouse()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_who_gave_up_leaves_nothing_behind(floor):
    wake = floor.floor.wake
    for topic in map(str, range(50)):
        wake.wait_here(topic, wake.mark(), 0)
        asyncio.run(wake.wait(topic, wake.mark(), 0))
    assert wake._waiting == {}


def test_topics_long_past_are_forgotten_without_a_hint_being_missed(floor, monkeypatch):
    monkeypatch.setattr("shopfloor.background.wake._REMEMBERED", 3)
    wake = Wake(floor.floor.works)
    mark = wake.mark()
    for topic in "abcdefgh":
        wake._stir(frozenset({topic}))
    assert len(wake._stirred) <= 5
    at_once(lambda: wake.wait_here("a", mark, FOREVER))


def test_a_hint_of_another_process_is_heard_however_much_this_one_wrote_itself(floor, opened, monkeypatch):
    monkeypatch.setattr("shopfloor.background.wake._PAGE", 5)
    other = opened(started=False)
    for _ in range(12):
        note(floor)
    wake = floor.floor.wake
    until(lambda: wake.mark() > 0)
    mark = wake.mark()
    note(other)
    at_once(lambda: wake.wait_here("log", mark, FOREVER))


def test_under_load_nobody_misses_the_last_word(opened):
    """Writers of two processes, and eight who look, wait, and look again: a missed hint would leave one waiting."""
    floor, other = opened(), opened(started=False)
    total = 2 * 25

    def written(where):
        return lambda: [note(where, f"note {number}") for number in range(25)]

    def watch():
        wake = floor.floor.wake
        while True:
            mark = wake.mark()
            if floor.rows("SELECT count(*) FROM event WHERE name = 'decision.logged'")[0][0] >= total:
                return True
            wake.wait_here("log", mark, FOREVER)

    assert together(written(floor), written(other), *[watch] * 8)[2:] == [True] * 8
