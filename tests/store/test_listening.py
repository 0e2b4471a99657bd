"""Listeners are notified of topics after each commit."""

from __future__ import annotations

import json
import logging
import threading
from queue import Queue

import pytest

from shopfloor.store import Connection
from shopfloor.store.postgres_notify import MAX_PAYLOAD_BYTES, build_payloads
from tests.store.support import PATIENCE, Child, increment_counter, roll_back_savepoint, wait_until

POLL: frozenset[str] = frozenset()


def notify(*topics: str):
    def write(conn: Connection) -> None:
        increment_counter(conn)
        conn.notify_on_commit(*topics)

    return write


@pytest.fixture
def listener(store):
    """The notifications of a listener that is connected."""
    notifications: Queue[frozenset[str]] = Queue()
    end = store.listen(notifications.put)
    if store.engine == "postgres":
        assert (
            notifications.get(timeout=PATIENCE) == POLL
        )  # the connection is up; earlier notifications are not received
    yield notifications
    end()


def test_listeners_get_topics_after_the_commit(store, listener):
    store.write(notify("mail", "tasks"))
    assert listener.get(timeout=PATIENCE) == {"mail", "tasks"}


def test_committed_rows_are_visible_to_a_notified_listener(store):
    seen: Queue[object] = Queue()
    store.listen(
        lambda topics: seen.put(store.read(lambda conn: conn.fetch_one("SELECT n FROM counter"))) if topics else None
    )
    store.write(notify("mail"))
    assert seen.get(timeout=PATIENCE) == (1,)


def test_deferred_writes_notify_listeners(store, listener):
    store.later(notify("log"))
    assert listener.get(timeout=PATIENCE) == {"log"}


def test_rolled_back_topics_are_not_notified(store, listener):
    def fail(conn: Connection) -> None:
        conn.notify_on_commit("failed")
        raise ZeroDivisionError

    def undo(conn: Connection) -> None:
        with roll_back_savepoint(conn):
            increment_counter(conn)
            conn.notify_on_commit("undone")
        increment_counter(conn)
        conn.notify_on_commit("kept")

    with pytest.raises(ZeroDivisionError):
        store.write(fail)
    store.write(increment_counter)
    store.write(undo)
    assert listener.get(timeout=PATIENCE) == {"kept"}


def test_own_topics_are_notified_once(store, listener):
    store.write(notify("first"))
    assert listener.get(timeout=PATIENCE) == {"first"}
    store.write(notify("second"))
    assert listener.get(timeout=PATIENCE) == {"second"}
    assert listener.empty()


def test_failing_listener_is_logged_and_affects_no_other(store, caplog):
    notifications: Queue[frozenset[str]] = Queue()

    def fail(topics: frozenset[str]) -> None:
        raise ZeroDivisionError("a poor listener")

    store.listen(fail)
    store.listen(lambda topics: notifications.put(topics) if topics else None)
    with caplog.at_level(logging.ERROR, "shopfloor.store"):
        store.write(notify("mail"))
        assert notifications.get(timeout=PATIENCE) == {"mail"}
    assert "a poor listener" in caplog.text


def test_closed_listener_is_not_notified(store):
    first: Queue[frozenset[str]] = Queue()
    second: Queue[frozenset[str]] = Queue()
    end = store.listen(lambda topics: first.put(topics) if topics else None)
    store.listen(lambda topics: second.put(topics) if topics else None)
    store.write(notify("one"))
    assert first.get(timeout=PATIENCE) == {"one"}
    assert second.get(timeout=PATIENCE) == {"one"}
    end()
    end()
    store.write(notify("two"))
    assert second.get(timeout=PATIENCE) == {"two"}
    assert first.empty()


def test_commit_of_another_process_notifies_listeners(store, listener, url):
    other = Child("notify", url, "mail", "tasks")
    other.start()
    assert other.read_rest() == ["done\n"]
    notifications = listener.get(timeout=PATIENCE)
    assert notifications == (POLL if store.engine == "sqlite" else {"mail", "tasks"})


def test_own_commits_are_not_mistaken_for_those_of_another_process(sqlite):
    notifications: list[frozenset[str]] = []
    sqlite.listen(notifications.append)
    for _ in range(20):
        sqlite.write(increment_counter)
    ticked = threading.Event()
    sqlite.listen(lambda topics: ticked.set() if "tick" in topics else None)
    sqlite.write(notify("tick"))
    assert ticked.wait(PATIENCE)
    assert wait_until(lambda: notifications) == [{"tick"}]


def test_payloads_are_short_and_complete():
    topics = frozenset(f"topic {number} ü" for number in range(1000))
    found = build_payloads("me", topics)
    assert all(len(payload) <= MAX_PAYLOAD_BYTES for payload in found)
    assert {topic for payload in found for topic in json.loads(payload)[1:]} == topics


@pytest.mark.parametrize("topics", [{"x" * 8000}, {f"{number} {'x' * 1000}" for number in range(100)}, set()])
def test_too_many_topics_become_one_notification_to_poll(topics):
    assert build_payloads("me", frozenset(topics)) == ['["me"]']
