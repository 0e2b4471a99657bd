"""Writes that nobody waits for."""

from __future__ import annotations

import logging
import threading

from shopfloor.store import jobs
from shopfloor.store.database import Connection, open_store
from tests.store.support import MIGRATIONS, PATIENCE, bump, put, titles, until


def test_they_are_durable_after_a_flush_and_in_order(store):
    expected = [str(number) for number in range(700)]
    for title in expected:
        store.later(put(title))
    store.flush()
    assert titles(store) == expected


def test_they_are_written_without_a_flush_too(store):
    store.later(put("alone"))
    assert until(lambda: titles(store)) == ["alone"]


def test_a_flush_of_nothing_returns(store):
    store.flush()


def test_a_failing_one_is_logged_and_hurts_no_other(store, caplog):
    def fail(conn: Connection) -> None:
        put("undone")(conn)
        raise ZeroDivisionError("of its own")

    with caplog.at_level(logging.ERROR, "shopfloor.store"):
        store.later(put("before"))
        store.later(fail)
        store.later(lambda conn: conn.execute("SELEKT"))
        store.later(put("after"))
        store.flush()
        until(lambda: len(caplog.records) == 2)
    assert titles(store) == ["before", "after"]
    assert ["of its own" in caplog.text, "SELEKT" in caplog.text] == [True, True]


def test_they_go_with_the_writes_of_others(store):
    for number in range(50):
        store.later(put(f"later {number}"))
        store.write(bump)
    store.flush()
    assert len(titles(store)) == 50
    assert store.read(lambda conn: conn.one("SELECT n FROM counter")) == (50,)


def test_a_full_queue_makes_the_caller_wait(store, monkeypatch):
    monkeypatch.setattr(jobs, "QUEUE", 5)
    inside, free = threading.Event(), threading.Event()

    def block(conn: Connection) -> None:
        inside.set()
        assert free.wait(PATIENCE)

    store.later(block)
    assert inside.wait(PATIENCE)
    for number in range(5):
        store.later(put(str(number)))
    done = threading.Event()

    def one_more() -> None:
        store.later(put("5"))
        done.set()

    threading.Thread(target=one_more).start()
    assert not done.wait(0.05)
    free.set()
    assert done.wait(PATIENCE)
    store.flush()
    assert titles(store) == [str(number) for number in range(6)]


def test_they_cannot_write_inside_of_themselves(store, caplog):
    with caplog.at_level(logging.ERROR, "shopfloor.store"):
        store.later(lambda _: store.write(bump))
        store.flush()
        until(lambda: caplog.records)
    assert "inside a write" in caplog.text


def test_closing_writes_what_is_queued(url):
    store = open_store(url, migrations=MIGRATIONS)
    for number in range(300):
        store.later(put(str(number)))
    store.close()
    again = open_store(url, migrations=MIGRATIONS)
    assert len(titles(again)) == 300
    again.close()
