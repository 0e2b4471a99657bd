"""The topic hub misses no notification."""

from __future__ import annotations

import asyncio
import threading
import time
from queue import Queue

import psycopg
import pytest

from shopfloor.background import topics as module
from shopfloor.background.topics import CALLS, TopicHub
from tests.workbench import PATIENCE, run_together, wait_until

FOREVER = PATIENCE * 10


def assert_returns(action):
    """Run the action and check that it returns long before its own timeout."""
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it was not woken"


def start_waiters(hub, *topics):
    threads = [
        threading.Thread(target=hub.wait_blocking, args=(topic, hub.checkpoint(), FOREVER), daemon=True)
        for topic in topics
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: sum(map(len, hub._waiters.values())) == len(topics))
    return threads


def assert_ended(threads):
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def write_note(shopfloor, text="x"):
    shopfloor.call("bench", "note", {"text": text})


@pytest.fixture
def hub(shopfloor):
    """A hub that is not subscribed to the store: only the test notifies it."""
    return TopicHub(shopfloor.engine.database)


def test_wait_ends_at_its_timeout(shopfloor):
    hub = shopfloor.engine.topics
    hub.wait_blocking("log", hub.checkpoint(), 0)
    hub.wait_blocking("log", hub.checkpoint(), -5)
    asyncio.run(hub.wait("log", hub.checkpoint(), 0.001))


def test_a_topic_notified_since_the_checkpoint_is_not_waited_for(shopfloor):
    hub = shopfloor.engine.topics
    checkpoint = hub.checkpoint()
    write_note(shopfloor)
    wait_until(lambda: hub.checkpoint() > checkpoint)
    assert_returns(lambda: hub.wait_blocking("log", checkpoint, FOREVER))
    assert_returns(lambda: asyncio.run(hub.wait("log", checkpoint, FOREVER)))


def test_another_topic_does_not_wake(hub):
    checkpoint = hub.checkpoint()
    hub.publish(frozenset({"log"}))
    began = time.monotonic()
    hub.wait_blocking("mail", checkpoint, 0.05)
    assert time.monotonic() - began >= 0.05


@pytest.mark.parametrize("in_between", ["wake_all", "any topic"])
def test_a_waiter_that_took_its_checkpoint_before_wake_all_does_not_wait(shopfloor, in_between):
    hub = shopfloor.engine.topics
    checkpoint = hub.checkpoint()
    if in_between == "wake_all":
        hub.wake_all()
    elif shopfloor.engine.database.store.engine == "postgres":
        hub._receive(frozenset())  # what a replica gets after its connection was lost
    else:
        write_note(shopfloor)
        wait_until(lambda: hub.checkpoint() > checkpoint)
    assert_returns(lambda: hub.wait_blocking("log", checkpoint, FOREVER))


def test_stop_wakes_every_waiter_and_subscriber(hub):
    received: Queue[frozenset[str]] = Queue()
    threads = start_waiters(hub, "a", "b")
    hub.subscribe(received.put, "c")
    hub.subscribe(received.put)
    hub.stop()
    assert_ended(threads)
    wait_until(lambda: received.qsize() >= 2)
    assert frozenset() in received.queue


def test_after_stop_subscribers_receive_nothing_and_the_poller_has_ended(hub):
    received: list[frozenset[str]] = []
    hub.subscribe(received.append)
    hub.stop()
    received.clear()
    hub.publish(frozenset({"log"}))
    assert received == []
    assert hub._calls_poller is None or not hub._calls_poller.is_alive()


def test_a_burst_of_topics_wakes_each_waiter_once(hub):
    woken: list[str] = []
    for topic in ("a", "b"):
        hub._add_waiter(topic, hub.checkpoint(), lambda topic=topic: woken.append(topic))
    for _ in range(100):
        hub.publish(frozenset({"a", "b", "c"}))
    assert sorted(woken) == ["a", "b"]


def test_the_first_notification_after_everything_was_idle_is_not_lost(shopfloor, open_workbench):
    """Commit in another process after the last waiter and subscriber have left, before the next one arrives."""
    hub, other = shopfloor.engine.topics, open_workbench(started=False)
    hub.subscribe(lambda _: None)()
    hub.wait_blocking("log", hub.checkpoint(), 0)
    received: Queue[frozenset[str]] = Queue()
    hub.subscribe(received.put, "log")
    threads = start_waiters(hub, "log")
    write_note(other)
    assert_ended(threads)
    assert received.get(timeout=PATIENCE) in (frozenset(), {"log"})


@pytest.mark.parametrize("database", ["postgres"], indirect=True)  # SQLite has no connection to lose
def test_a_dropped_connection_of_the_listener_loses_no_notification(shopfloor, open_workbench):
    hub, other = shopfloor.engine.topics, open_workbench(started=False)
    wait_until(lambda: hub.checkpoint() > 0)  # the first LISTEN wakes everyone
    threads = start_waiters(hub, "log")
    with psycopg.connect(shopfloor.engine.settings.database_url, autocommit=True) as connection:
        wait_until(
            lambda: connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE query LIKE 'LISTEN%' AND datname = current_database()"
            ).fetchall()
        )
    write_note(other)
    assert_ended(threads)


def test_a_subscriber_receives_only_its_topics_and_any_topic(hub):
    received: list[frozenset[str]] = []
    unsubscribe = hub.subscribe(received.append, "outbox")
    hub.publish(frozenset({"log"}))
    hub.publish(frozenset({"outbox", "log"}))
    hub.wake_all()
    own = [topics for topics in received if topics != frozenset()]
    assert own == [frozenset({"outbox", "log"})]
    assert frozenset() in received
    unsubscribe()
    received.clear()
    hub.publish(frozenset({"outbox"}))
    assert received == []


def test_a_failing_subscriber_does_not_keep_others_from_being_called(hub):
    def fail(_: frozenset[str]) -> None:
        raise ZeroDivisionError

    received: list[frozenset[str]] = []
    hub.subscribe(fail, "log")
    hub.subscribe(received.append, "log")
    hub.publish(frozenset({"log"}))
    assert {"log"} in received


def test_a_row_of_the_log_notifies_subscribers_of_everything(shopfloor, monkeypatch):
    monkeypatch.setattr(module, "CALLS_POLL_SECONDS", 0.01)
    received: Queue[frozenset[str]] = Queue()
    unsubscribe = shopfloor.engine.topics.subscribe(received.put)

    def count_calls() -> bool:
        write_note(shopfloor)
        return any(CALLS in topics for topics in list(received.queue))

    wait_until(count_calls)
    unsubscribe()
    wait_until(lambda: shopfloor.engine.topics._calls_poller is None)  # no page, no query


def test_waiters_that_gave_up_leave_nothing_behind(shopfloor):
    hub = shopfloor.engine.topics
    for topic in map(str, range(50)):
        hub.wait_blocking(topic, hub.checkpoint(), 0)
        asyncio.run(hub.wait(topic, hub.checkpoint(), 0))
    assert hub._waiters == {}


def test_old_topics_are_dropped_without_losing_a_notification(hub, monkeypatch):
    monkeypatch.setattr(module, "MAX_REMEMBERED_TOPICS", 3)
    checkpoint = hub.checkpoint()
    for topic in "abcdefgh":
        hub.publish(frozenset({topic}))
    assert len(hub._notified_at) <= 5
    assert_returns(lambda: hub.wait_blocking("a", checkpoint, FOREVER))


def test_a_commit_of_another_process_wakes_however_much_this_one_wrote(shopfloor, open_workbench, monkeypatch):
    monkeypatch.setattr(module, "MAX_EVENTS_READ", 5)
    other = open_workbench(started=False)
    for _ in range(12):
        write_note(shopfloor)
    hub = shopfloor.engine.topics
    wait_until(lambda: hub.checkpoint() > 0)
    checkpoint = hub.checkpoint()
    write_note(other)
    assert_returns(lambda: hub.wait_blocking("log", checkpoint, FOREVER))


def test_under_load_no_waiter_misses_the_last_commit(open_workbench):
    """Run writers of two processes and eight waiters that read, wait and read again: a lost wake-up leaves one waiting."""
    shopfloor, other = open_workbench(), open_workbench(started=False)
    total = 2 * 25

    def write_notes(where):
        return lambda: [write_note(where, f"note {number}") for number in range(25)]

    def watch():
        hub = shopfloor.engine.topics
        while True:
            checkpoint = hub.checkpoint()
            if shopfloor.rows("SELECT count(*) FROM event WHERE name = 'decision.logged'")[0][0] >= total:
                return True
            hub.wait_blocking("log", checkpoint, FOREVER)

    assert run_together(write_notes(shopfloor), write_notes(other), *[watch] * 8)[2:] == [True] * 8
