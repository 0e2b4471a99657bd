"""One transaction, on both engines."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from shopfloor.errors import ShopfloorError, StoreFailed, StoreUnreachable
from shopfloor.store import Connection, open_store
from tests.store.support import MIGRATIONS, PATIENCE, increment_counter, insert_thing, list_titles, roll_back_savepoint


def test_a_write_returns_what_its_function_returns(store):
    assert store.write(lambda conn: conn.execute("INSERT INTO counter VALUES (:name, :n)", name="a", n=7)) == 1
    assert store.read(lambda conn: conn.fetch_one("SELECT name, n FROM counter")) == ("a", 7)


def test_rows_are_plain_tuples(store):
    store.write(insert_thing("one"))
    rows = store.read(lambda conn: conn.fetch_all("SELECT id, title, body FROM thing"))
    assert rows == [(1, "one", None)]
    assert type(rows[0]) is tuple


def test_fetch_one_returns_the_first_row_or_none(store):
    for title in ("b", "a"):
        store.write(insert_thing(title))
    assert store.read(lambda conn: conn.fetch_one("SELECT title FROM thing ORDER BY title")) == ("a",)
    assert store.read(lambda conn: conn.fetch_one("SELECT title FROM thing WHERE title = :t", t="c")) is None


def test_execute_counts_the_rows_it_changed(store):
    for title in ("a", "b", "c"):
        store.write(insert_thing(title))
    assert store.write(lambda conn: conn.execute("UPDATE thing SET at = 1 WHERE title > :t", t="a")) == 2
    assert store.write(lambda conn: conn.execute("DELETE FROM thing WHERE title = 'z'")) == 0
    assert store.write(lambda conn: conn.execute("DELETE FROM thing")) == 3


def test_returning_clause_returns_rows(store):
    def write(conn: Connection) -> object:
        return conn.fetch_one("INSERT INTO thing (title) VALUES (:title) RETURNING id, title", title="x")

    assert store.write(write) == (1, "x")
    assert store.write(lambda conn: conn.execute("UPDATE thing SET at = 2 RETURNING id")) == 1
    assert store.read(lambda conn: conn.fetch_one("SELECT at FROM thing")) == (2,)


def test_on_conflict_does_nothing_or_updates(store):
    again = "INSERT INTO counter VALUES ('a', 1) ON CONFLICT (name) DO NOTHING"
    assert store.write(lambda conn: conn.execute(again)) == 1
    assert store.write(lambda conn: conn.execute(again)) == 0
    add = "INSERT INTO counter VALUES ('a', 1) ON CONFLICT (name) DO UPDATE SET n = counter.n + :more RETURNING n"
    assert store.write(lambda conn: conn.fetch_one(add, more=5)) == (6,)


def test_exception_rolls_back_the_write_and_propagates(store):
    def write(conn: Connection) -> None:
        insert_thing("lost")(conn)
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        store.write(write)
    store.write(insert_thing("kept"))
    assert list_titles(store) == ["kept"]


def test_a_write_sees_its_own_changes(store):
    def write(conn: Connection) -> object:
        insert_thing("mine")(conn)
        return conn.fetch_all("SELECT title FROM thing")

    assert store.write(write) == [("mine",)]


def test_savepoint_is_rolled_back_alone(store):
    def write(conn: Connection) -> None:
        insert_thing("before")(conn)
        with roll_back_savepoint(conn):
            insert_thing("inside")(conn)
        insert_thing("after")(conn)

    store.write(write)
    assert list_titles(store) == ["before", "after"]


def test_exception_propagates_through_a_savepoint(store):
    def write(conn: Connection) -> None:
        insert_thing("lost")(conn)
        with conn.savepoint():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.write(write)
    assert list_titles(store) == []


def test_savepoint_may_be_the_first_and_the_last_statement(store):
    def write(conn: Connection) -> None:
        with conn.savepoint():
            insert_thing("inside")(conn)

    store.write(write)
    assert list_titles(store) == ["inside"]


def test_a_savepoint_may_be_empty(store):
    def write(conn: Connection) -> None:
        with conn.savepoint(), conn.savepoint():
            pass
        with roll_back_savepoint(conn):
            pass
        insert_thing("kept")(conn)

    store.write(write)
    assert list_titles(store) == ["kept"]


def test_savepoints_nest(store):
    def write(conn: Connection) -> None:
        with conn.savepoint():
            insert_thing("outer")(conn)
            with roll_back_savepoint(conn):
                insert_thing("inner")(conn)
                with conn.savepoint():
                    insert_thing("innermost")(conn)
            insert_thing("outer again")(conn)
        with roll_back_savepoint(conn), conn.savepoint():
            insert_thing("released, then undone")(conn)

    store.write(write)
    assert list_titles(store) == ["outer", "outer again"]


def test_savepoint_contains_a_failed_statement(store):
    store.write(insert_thing("taken"))

    def write(conn: Connection) -> None:
        with suppress(StoreFailed), conn.savepoint():
            insert_thing("undone")(conn)
            insert_thing("taken")(conn)
        insert_thing("kept")(conn)

    store.write(write)
    assert list_titles(store) == ["taken", "kept"]


def test_swallowed_statement_error_fails_the_write(store):
    store.write(insert_thing("taken"))

    def write(conn: Connection) -> None:
        insert_thing("lost")(conn)
        with pytest.raises(StoreFailed):
            insert_thing("taken")(conn)

    with pytest.raises(StoreFailed):
        store.write(write)
    assert list_titles(store) == ["taken"]


def test_no_statement_runs_after_a_failed_one(store):
    def write(conn: Connection) -> None:
        with pytest.raises(StoreFailed):
            conn.execute("INSERT INTO nowhere VALUES (1)")
        insert_thing("lost")(conn)

    with pytest.raises(StoreFailed):
        store.write(write)
    assert list_titles(store) == []


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO thing (id, title) VALUES (1, 'again')",
        "INSERT INTO thing (title) VALUES ('taken')",
        "INSERT INTO thing (title) VALUES (NULL)",
        "INSERT INTO part (thing_id) VALUES (99)",
        "INSERT INTO nowhere VALUES (1)",
        'INSERT INTO thing (title) VALUES ("taken")',
        "SELEKT",
    ],
)
def test_constraint_violation_and_invalid_sql_are_chained_to_their_cause(store, sql):
    store.write(insert_thing("taken"))
    with pytest.raises(StoreFailed) as failure:
        store.write(lambda conn: conn.execute(sql))
    assert failure.value.__cause__ is not None
    assert not failure.value.transient
    assert list_titles(store) == ["taken"]


def test_missing_parameter_raises_key_error(store):
    with pytest.raises(KeyError):
        store.write(lambda conn: conn.execute("INSERT INTO thing (title) VALUES (:title)"))


def test_a_read_cannot_write(store):
    with pytest.raises(StoreFailed):
        store.read(insert_thing("no"))
    assert list_titles(store) == []


def test_connection_is_unusable_after_its_function(store):
    kept: list[Connection] = []
    store.write(kept.append)
    store.read(kept.append)
    for conn in kept:
        with pytest.raises(RuntimeError, match="ended"):
            conn.fetch_one("SELECT 1")


def test_a_read_is_one_snapshot(store):
    store.write(increment_counter)
    begun, written = threading.Event(), threading.Event()

    def read(conn: Connection) -> list[object]:
        seen: list[object] = [conn.fetch_one("SELECT n FROM counter")]
        begun.set()
        assert written.wait(PATIENCE)
        return [*seen, conn.fetch_one("SELECT n FROM counter")]

    answers: list[object] = []
    reader = threading.Thread(target=lambda: answers.extend(store.read(read)))
    reader.start()
    assert begun.wait(PATIENCE)
    store.write(increment_counter)
    written.set()
    reader.join(PATIENCE)
    assert answers == [(1,), (1,)]
    assert store.read(lambda conn: conn.fetch_one("SELECT n FROM counter")) == (2,)


def test_reader_does_not_see_uncommitted_rows(store):
    def write(conn: Connection) -> object:
        insert_thing("half")(conn)
        return list_titles(store)

    assert store.write(write) == []
    assert list_titles(store) == ["half"]


def test_write_inside_a_write_is_rejected(store):
    with pytest.raises(RuntimeError, match="inside a write"):
        store.write(lambda _: store.write(insert_thing("no")))
    store.write(insert_thing("yes"))
    assert list_titles(store) == ["yes"]


def test_write_on_the_event_loop_is_rejected_and_a_read_is_not(store):
    async def main() -> list[str]:
        with pytest.raises(RuntimeError, match="event loop"):
            store.write(insert_thing("no"))
        await asyncio.to_thread(store.write, insert_thing("yes"))
        return list_titles(store)

    assert asyncio.run(main()) == ["yes"]


def test_engine_reports_how_it_locks(store):
    words = store.write(lambda conn: (conn.engine, conn.for_update, conn.skip_locked))
    assert (
        words
        == {
            "sqlite": ("sqlite", "", ""),
            "postgres": ("postgres", "FOR UPDATE", "FOR UPDATE SKIP LOCKED"),
        }[store.engine]
    )
    assert store.commit_may_be_unknown == (store.engine == "postgres")


def test_store_is_ready_until_it_is_closed(url):
    store = open_store(url, migrations=MIGRATIONS)
    store.check()
    store.write(insert_thing("kept"))
    store.later(insert_thing("kept too"))
    store.close()
    store.close()
    for use in (
        store.check,
        store.flush,
        lambda: store.read(increment_counter),
        lambda: store.write(increment_counter),
        lambda: store.later(increment_counter),
    ):
        with pytest.raises(StoreUnreachable):
            use()
    again = open_store(url, migrations=MIGRATIONS)
    assert list_titles(again) == ["kept", "kept too"]
    again.close()


def test_commits_are_counted_and_observed(store):
    sizes: list[int] = []
    store.on_batch(sizes.append)
    before = store.gauges()
    store.write(increment_counter)
    store.write(increment_counter)
    with pytest.raises(ShopfloorError):
        store.write(lambda conn: conn.execute("SELEKT"))
    store.flush()
    after = store.gauges()
    assert after["writes"] - before["writes"] == sum(sizes)
    assert after["commits"] - before["commits"] == len(sizes)
    assert sum(sizes) >= 2
