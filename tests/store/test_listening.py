"""Wake-ups: only hints, but they come."""

from __future__ import annotations

import json
import logging
import threading
from queue import Queue

import pytest

from shopfloor.store.database import Connection
from shopfloor.store.notify import PAYLOAD, payloads
from tests.store.support import PATIENCE, Child, bump, undone, until

LOOK: frozenset[str] = frozenset()


def hinting(*topics: str):
    def write(conn: Connection) -> None:
        bump(conn)
        conn.hint(*topics)

    return write


@pytest.fixture
def heard(store):
    """What a listener hears, from the time on when it hears everything."""
    told: Queue[frozenset[str]] = Queue()
    end = store.listen(told.put)
    if store.engine == "postgres":
        assert told.get(timeout=PATIENCE) == LOOK  # the line is up: what was told before was not heard
    yield told
    end()


def test_topics_are_heard_after_the_commit(store, heard):
    store.write(hinting("mail", "tasks"))
    assert heard.get(timeout=PATIENCE) == {"mail", "tasks"}


def test_what_was_hinted_is_there_when_it_is_heard(store):
    seen: Queue[object] = Queue()
    store.listen(
        lambda topics: seen.put(store.read(lambda conn: conn.one("SELECT n FROM counter"))) if topics else None
    )
    store.write(hinting("mail"))
    assert seen.get(timeout=PATIENCE) == (1,)


def test_later_writes_hint_too(store, heard):
    store.later(hinting("log"))
    assert heard.get(timeout=PATIENCE) == {"log"}


def test_what_is_undone_is_not_told(store, heard):
    def fail(conn: Connection) -> None:
        conn.hint("failed")
        raise ZeroDivisionError

    def undo(conn: Connection) -> None:
        with undone(conn):
            bump(conn)
            conn.hint("undone")
        bump(conn)
        conn.hint("kept")

    with pytest.raises(ZeroDivisionError):
        store.write(fail)
    store.write(bump)
    store.write(undo)
    assert heard.get(timeout=PATIENCE) == {"kept"}


def test_own_topics_are_told_once(store, heard):
    store.write(hinting("first"))
    assert heard.get(timeout=PATIENCE) == {"first"}
    store.write(hinting("second"))
    assert heard.get(timeout=PATIENCE) == {"second"}
    assert heard.empty()


def test_a_failing_listener_is_logged_and_hurts_no_other(store, caplog):
    told: Queue[frozenset[str]] = Queue()

    def fail(topics: frozenset[str]) -> None:
        raise ZeroDivisionError("a poor listener")

    store.listen(fail)
    store.listen(lambda topics: told.put(topics) if topics else None)
    with caplog.at_level(logging.ERROR, "shopfloor.store"):
        store.write(hinting("mail"))
        assert told.get(timeout=PATIENCE) == {"mail"}
    assert "a poor listener" in caplog.text


def test_who_has_ended_hears_no_more(store):
    first: Queue[frozenset[str]] = Queue()
    second: Queue[frozenset[str]] = Queue()
    end = store.listen(lambda topics: first.put(topics) if topics else None)
    store.listen(lambda topics: second.put(topics) if topics else None)
    store.write(hinting("one"))
    assert first.get(timeout=PATIENCE) == {"one"}
    assert second.get(timeout=PATIENCE) == {"one"}
    end()
    end()
    store.write(hinting("two"))
    assert second.get(timeout=PATIENCE) == {"two"}
    assert first.empty()


def test_a_commit_of_another_process_is_heard(store, heard, url):
    other = Child("hint", url, "mail", "tasks")
    other.go()
    assert other.rest() == ["done\n"]
    told = heard.get(timeout=PATIENCE)
    assert told == (LOOK if store.engine == "sqlite" else {"mail", "tasks"})


def test_own_commits_are_not_taken_for_those_of_another_process(sqlite):
    told: list[frozenset[str]] = []
    sqlite.listen(told.append)
    for _ in range(20):
        sqlite.write(bump)
    ticked = threading.Event()
    sqlite.listen(lambda topics: ticked.set() if "tick" in topics else None)
    sqlite.write(hinting("tick"))
    assert ticked.wait(PATIENCE)
    assert until(lambda: told) == [{"tick"}]


def test_payloads_are_short_and_complete():
    topics = frozenset(f"topic {number} ü" for number in range(1000))
    found = payloads("me", topics)
    assert all(len(payload) <= PAYLOAD for payload in found)
    assert {topic for payload in found for topic in json.loads(payload)[1:]} == topics


@pytest.mark.parametrize("topics", [{"x" * 8000}, {f"{number} {'x' * 1000}" for number in range(100)}, set()])
def test_too_much_to_tell_becomes_one_look(topics):
    assert payloads("me", frozenset(topics)) == ['["me"]']
