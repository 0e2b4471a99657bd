"""Deferred writes: no caller waits for them."""

from __future__ import annotations

import asyncio
import logging
import threading

import apsw
import pytest

from shopfloor.errors import StoreBusy, StoreUnreachable
from shopfloor.store import Connection, cooperative, open_store, write_queue
from tests.store.support import MIGRATIONS, PATIENCE, increment_counter, insert_thing, list_titles, wait_until


def test_deferred_writes_are_durable_after_a_flush_and_in_order(store):
    expected = [str(number) for number in range(700)]
    for title in expected:
        store.later(insert_thing(title))
    store.flush()
    assert list_titles(store) == expected


def test_deferred_writes_are_written_without_a_flush(store):
    store.later(insert_thing("alone"))
    assert wait_until(lambda: list_titles(store)) == ["alone"]


def test_flush_of_an_empty_queue_returns(store):
    store.flush()
    assert list_titles(store) == []


def test_failing_deferred_write_is_logged_and_affects_no_other(store, caplog):
    def fail(conn: Connection) -> None:
        insert_thing("undone")(conn)
        raise ZeroDivisionError("of its own")

    with caplog.at_level(logging.ERROR, "shopfloor.store"):
        store.later(insert_thing("before"))
        store.later(fail)
        store.later(lambda conn: conn.execute("SELEKT"))
        store.later(insert_thing("after"))
        store.flush()
        wait_until(lambda: len(caplog.records) == 2)
    assert list_titles(store) == ["before", "after"]
    assert ["of its own" in caplog.text, "SELEKT" in caplog.text] == [True, True]


def test_deferred_writes_join_the_next_commit(store):
    for number in range(50):
        store.later(insert_thing(f"later {number}"))
        store.write(increment_counter)
    store.flush()
    assert len(list_titles(store)) == 50
    assert store.read(lambda conn: conn.fetch_one("SELECT n FROM counter")) == (50,)


def test_a_full_queue_makes_the_caller_wait(store, monkeypatch):
    monkeypatch.setattr(write_queue, "MAX_DEFERRED", 5)
    inside, free = threading.Event(), threading.Event()

    def block(conn: Connection) -> None:
        inside.set()
        assert free.wait(PATIENCE)

    store.later(block)
    assert inside.wait(PATIENCE)
    for number in range(5):
        store.later(insert_thing(str(number)))
    done = threading.Event()

    def one_more() -> None:
        store.later(insert_thing("5"))
        done.set()

    threading.Thread(target=one_more).start()
    assert not done.wait(0.05)
    free.set()
    assert done.wait(PATIENCE)
    store.flush()
    assert list_titles(store) == [str(number) for number in range(6)]


def test_full_queue_does_not_hold_up_the_event_loop(store, monkeypatch):
    monkeypatch.setattr(write_queue, "MAX_DEFERRED", 1)
    inside, free = threading.Event(), threading.Event()

    def block(conn: Connection) -> None:
        inside.set()
        assert free.wait(PATIENCE)

    async def defer() -> None:
        for title in ("0", "1"):  # the loop itself never waits
            store.later(insert_thing(title))
        deferring = cooperative.spawn(store.later, insert_thing("2"))
        await asyncio.sleep(write_queue.FULL_PAUSE_SECONDS * 2)
        assert not deferring.done()
        free.set()
        await deferring

    store.later(block)
    assert inside.wait(PATIENCE)
    asyncio.run(defer())
    store.flush()
    assert list_titles(store) == ["0", "1", "2"]


def test_write_inside_a_deferred_write_is_rejected(store, caplog):
    with caplog.at_level(logging.ERROR, "shopfloor.store"):
        store.later(lambda _: store.write(increment_counter))
        store.flush()
        wait_until(lambda: caplog.records)
    assert "inside a write" in caplog.text


def test_close_writes_the_queue(url):
    store = open_store(url, migrations=MIGRATIONS)
    for number in range(300):
        store.later(insert_thing(str(number)))
    store.close()
    again = open_store(url, migrations=MIGRATIONS)
    assert len(list_titles(again)) == 300
    again.close()


def test_deferred_writes_wait_until_the_store_is_free_again(sqlite, tmp_path, monkeypatch):
    monkeypatch.setattr(write_queue, "RETRY_PAUSE_SECONDS", 0.01)
    sqlite.write(lambda conn: conn.execute("PRAGMA busy_timeout = 1"))
    other = apsw.Connection(str(tmp_path / "floor.db"))
    other.execute("BEGIN IMMEDIATE")
    for number in range(20):
        sqlite.later(insert_thing(str(number)))
    with pytest.raises(StoreBusy):
        sqlite.flush()
    with pytest.raises(StoreUnreachable, match="20 log rows of answered calls wait"):
        wait_until(sqlite.check)
    other.execute("ROLLBACK")
    assert wait_until(lambda: list_titles(sqlite)) == [str(number) for number in range(20)]
    other.close()
    assert sqlite.gauges()["deferred_dropped"] == 0
    wait_until(lambda: is_ready(sqlite))


def test_dropped_deferred_writes_are_counted_and_reported(store, monkeypatch):
    def fail(conn: Connection) -> None:
        raise ZeroDivisionError

    store.later(fail)
    wait_until(lambda: store.gauges()["deferred_dropped"] == 1)
    with pytest.raises(StoreUnreachable, match="1 log rows of answered calls were dropped"):
        store.check()
    monkeypatch.setattr(write_queue, "DROP_REPORT_SECONDS", 0)
    store.check()


def test_full_queue_of_a_store_that_is_away_drops_instead_of_blocking(sqlite, tmp_path, monkeypatch):
    monkeypatch.setattr(write_queue, "RETRY_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(write_queue, "MAX_DEFERRED", 5)
    sqlite.write(lambda conn: conn.execute("PRAGMA busy_timeout = 1"))
    other = apsw.Connection(str(tmp_path / "floor.db"))
    other.execute("BEGIN IMMEDIATE")
    sqlite.later(insert_thing("first"))
    wait_until(lambda: not is_ready(sqlite))
    for number in range(20):
        sqlite.later(insert_thing(str(number)))
    assert sqlite.gauges()["deferred_dropped"] >= 10
    other.execute("ROLLBACK")
    other.close()
    assert wait_until(lambda: list_titles(sqlite))[0] == "first"


def is_ready(store) -> bool:
    try:
        store.check()
    except StoreUnreachable:
        return False
    except StoreBusy:
        return True
    return True
