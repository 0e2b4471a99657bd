"""Group commit on PostgreSQL: writes of calls on the event loop share transactions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from shopfloor.errors import CommitOutcomeUnknown, StoreFailed, StoreUnreachable
from shopfloor.store import Connection, cooperative, open_store, postgres_writers
from tests.store.proxy import Proxy
from tests.store.support import MIGRATIONS, PATIENCE, first_value, increment_counter, insert_thing, list_titles


@pytest.fixture
def url(postgres):
    return postgres.create_database()


@pytest.fixture(autouse=True)
def one_writer(monkeypatch):
    """One writer, so that a test decides which writes share a transaction."""
    monkeypatch.setattr(postgres_writers, "WRITERS", 1)


def write_batch(store: Any, *functions: Callable[[Connection], Any]) -> list[Any]:
    """Write all functions in one batch and return what each returned or raised."""
    inside, free = threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        inside.set()
        assert free.wait(PATIENCE)

    async def run() -> list[Any]:
        holding = cooperative.spawn(store.write, hold)
        assert await asyncio.to_thread(inside.wait, PATIENCE)
        writing = [cooperative.spawn(store.write, function) for function in functions]
        assert store.gauges()["queue_depth"] == len(functions)
        free.set()
        await holding
        return await asyncio.gather(*writing, return_exceptions=True)

    return asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_waiting_writes_share_a_commit_and_get_their_own_results(store):
    before = store.gauges()["commits"]
    assert write_batch(store, *[increment_counter] * 20) == list(range(1, 21))
    assert store.gauges()["commits"] - before == 2
    assert store.gauges()["writes"] >= 20


def test_failing_write_of_a_batch_is_rolled_back_alone(store):
    def fail(conn: Connection) -> None:
        insert_thing("never")(conn)
        raise ZeroDivisionError

    def swallow(conn: Connection) -> None:
        insert_thing("never either")(conn)
        try:
            conn.execute("SELECT nothing")
        except StoreFailed:
            return

    one, failed, swallowed, two = write_batch(store, insert_thing("one"), fail, swallow, insert_thing("two"))
    assert (one, two) == (1, 1)
    assert isinstance(failed, ZeroDivisionError)
    assert isinstance(swallowed, StoreFailed)
    assert list_titles(store) == ["one", "two"]


def test_error_of_a_statement_without_result_is_that_of_its_own_write(store):
    def send_twice(conn: Connection) -> None:
        for _ in range(2):
            conn.send("INSERT INTO thing (title) VALUES (:title)", title="taken")

    failed, fine = write_batch(store, send_twice, insert_thing("fine"))
    assert isinstance(failed, StoreFailed)
    assert fine == 1
    assert list_titles(store) == ["fine"]


def test_write_that_loses_a_conflict_runs_again_and_the_others_are_committed_without_it(store, url):
    store.write(increment_counter)
    runs: list[int] = []

    def read_then_write(conn: Connection) -> int:
        runs.append(first_value(conn.fetch_one("SELECT n FROM counter")))
        if len(runs) == 1:
            with psycopg.connect(url, autocommit=True) as other:
                other.execute("UPDATE counter SET n = 10")
        return increment_counter(conn)

    assert write_batch(store, insert_thing("one"), read_then_write, insert_thing("two")) == [1, 11, 1]
    assert runs == [1, 10]
    assert list_titles(store) == ["one", "two"]


def test_lock_of_another_transaction_does_not_hold_up_the_batch(store, url):
    store.write(increment_counter)
    committed = threading.Event()
    store.listen(lambda topics: committed.set() if "thing" in topics else None)

    def insert(conn: Connection) -> None:
        insert_thing("not held up")(conn)
        conn.notify_on_commit("thing")

    with psycopg.connect(url) as other:
        other.execute("UPDATE counter SET n = 10")

        def release() -> None:
            assert committed.wait(PATIENCE)
            other.commit()

        releasing = threading.Thread(target=release)
        releasing.start()
        assert write_batch(store, increment_counter, insert) == [11, None]
        releasing.join(PATIENCE)
    assert list_titles(store) == ["not held up"]


def test_connection_lost_before_the_commit_makes_every_write_run_again(store, url):
    runs: list[int] = []

    def cut(conn: Connection) -> int:
        runs.append(1)
        if len(runs) == 1:
            backend = first_value(conn.fetch_one("SELECT pg_backend_pid()"))
            with psycopg.connect(url, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s, 10000)", (backend,))
        return increment_counter(conn)

    assert write_batch(store, insert_thing("one"), cut, insert_thing("two")) == [1, 1, 1]
    assert list_titles(store) == ["one", "two"]


def test_connection_lost_at_the_commit_leaves_every_outcome_unknown(url):
    proxy = Proxy(url)
    store = open_store(proxy.url, migrations=MIGRATIONS)

    def cut(conn: Connection) -> None:
        insert_thing("two")(conn)
        proxy.cut_after_the_next_request(conn)

    outcomes = write_batch(store, insert_thing("one"), cut)
    assert [type(outcome) for outcome in outcomes] == [CommitOutcomeUnknown] * 2
    assert outcomes[0] is not outcomes[1]
    assert list_titles(store) == ["one", "two"]
    store.close()
    proxy.close()


def test_write_that_cannot_be_committed_affects_no_other_of_its_batch(store, url):
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE TABLE pair (n BIGINT REFERENCES thing (id) DEFERRABLE INITIALLY DEFERRED)")
    one, pair, two = write_batch(
        store, insert_thing("one"), lambda conn: conn.execute("INSERT INTO pair VALUES (99)"), insert_thing("two")
    )
    assert (one, two) == (1, 1)
    assert isinstance(pair, StoreFailed)
    assert list_titles(store) == ["one", "two"]


def test_write_inside_a_write_of_a_batch_is_rejected(store):
    outcomes = write_batch(store, lambda conn: store.write(increment_counter), insert_thing("one"))
    assert isinstance(outcomes[0], RuntimeError)
    assert outcomes[1] == 1


def test_read_of_a_spawned_function_does_not_hold_up_the_event_loop(store):
    free = threading.Event()

    def read(conn: Connection) -> Any:
        assert free.wait(PATIENCE)
        return conn.fetch_one("SELECT 1")

    async def run() -> Any:
        reading = cooperative.spawn(store.read, read)
        free.set()  # only a loop that was not held up gets here
        return await reading

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE)) == (1,)


def test_closed_store_rejects_further_writes(url):
    store = open_store(url, migrations=MIGRATIONS)
    store.close()

    async def run() -> None:
        await cooperative.spawn(store.write, increment_counter)

    with pytest.raises(StoreUnreachable):
        asyncio.run(run())


def test_many_statements_without_result_are_sent_in_a_few_round_trips(store, monkeypatch):
    trips = []

    def insert_many(conn: Any) -> None:
        send_all = conn.raw.wire.send_all

        def count(commands: Any) -> Any:
            trips.append(1)
            return send_all(commands)

        monkeypatch.setattr(conn.raw.wire, "send_all", count)
        for number in range(500):
            conn.send("INSERT INTO thing (title) VALUES (:title)", title=str(number))

    store.write(insert_many)
    assert len(list_titles(store)) == 500
    assert len(trips) <= 7
