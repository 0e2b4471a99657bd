"""What both engines promise about one transaction."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from shopfloor.errors import ShopfloorError, StoreFailed, StoreUnreachable
from shopfloor.store.database import Connection, open_store
from tests.store.support import MIGRATIONS, PATIENCE, bump, put, titles, undone


def test_a_write_returns_what_its_function_returns(store):
    assert store.write(lambda conn: conn.execute("INSERT INTO counter VALUES (:name, :n)", name="a", n=7)) == 1
    assert store.read(lambda conn: conn.one("SELECT name, n FROM counter")) == ("a", 7)


def test_rows_are_plain_tuples(store):
    store.write(put("one"))
    rows = store.read(lambda conn: conn.all("SELECT id, title, body FROM thing"))
    assert rows == [(1, "one", None)]
    assert type(rows[0]) is tuple


def test_one_is_the_first_row_or_nothing(store):
    for title in ("b", "a"):
        store.write(put(title))
    assert store.read(lambda conn: conn.one("SELECT title FROM thing ORDER BY title")) == ("a",)
    assert store.read(lambda conn: conn.one("SELECT title FROM thing WHERE title = :t", t="c")) is None


def test_execute_counts_the_rows_it_changed(store):
    for title in ("a", "b", "c"):
        store.write(put(title))
    assert store.write(lambda conn: conn.execute("UPDATE thing SET at = 1 WHERE title > :t", t="a")) == 2
    assert store.write(lambda conn: conn.execute("DELETE FROM thing WHERE title = 'z'")) == 0
    assert store.write(lambda conn: conn.execute("DELETE FROM thing")) == 3


def test_returning_gives_back_rows(store):
    def write(conn: Connection) -> object:
        return conn.one("INSERT INTO thing (title) VALUES (:title) RETURNING id, title", title="x")

    assert store.write(write) == (1, "x")
    assert store.write(lambda conn: conn.execute("UPDATE thing SET at = 2 RETURNING id")) == 1
    assert store.read(lambda conn: conn.one("SELECT at FROM thing")) == (2,)


def test_on_conflict_does_nothing_or_updates(store):
    again = "INSERT INTO counter VALUES ('a', 1) ON CONFLICT (name) DO NOTHING"
    assert store.write(lambda conn: conn.execute(again)) == 1
    assert store.write(lambda conn: conn.execute(again)) == 0
    add = "INSERT INTO counter VALUES ('a', 1) ON CONFLICT (name) DO UPDATE SET n = counter.n + :more RETURNING n"
    assert store.write(lambda conn: conn.one(add, more=5)) == (6,)


def test_an_exception_undoes_the_whole_write_and_goes_on_up(store):
    def write(conn: Connection) -> None:
        put("lost")(conn)
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        store.write(write)
    store.write(put("kept"))
    assert titles(store) == ["kept"]


def test_a_write_sees_its_own_changes(store):
    def write(conn: Connection) -> object:
        put("mine")(conn)
        return conn.all("SELECT title FROM thing")

    assert store.write(write) == [("mine",)]


def test_a_savepoint_is_undone_alone(store):
    def write(conn: Connection) -> None:
        put("before")(conn)
        with undone(conn):
            put("inside")(conn)
        put("after")(conn)

    store.write(write)
    assert titles(store) == ["before", "after"]


def test_an_exception_goes_through_a_savepoint(store):
    def write(conn: Connection) -> None:
        put("lost")(conn)
        with conn.savepoint():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.write(write)
    assert titles(store) == []


def test_a_savepoint_may_be_the_first_and_the_last_thing(store):
    def write(conn: Connection) -> None:
        with conn.savepoint():
            put("inside")(conn)

    store.write(write)
    assert titles(store) == ["inside"]


def test_a_savepoint_may_be_empty(store):
    def write(conn: Connection) -> None:
        with conn.savepoint(), conn.savepoint():
            pass
        with undone(conn):
            pass
        put("kept")(conn)

    store.write(write)
    assert titles(store) == ["kept"]


def test_savepoints_nest(store):
    def write(conn: Connection) -> None:
        with conn.savepoint():
            put("outer")(conn)
            with undone(conn):
                put("inner")(conn)
                with conn.savepoint():
                    put("innermost")(conn)
            put("outer again")(conn)
        with undone(conn), conn.savepoint():
            put("released, then undone")(conn)

    store.write(write)
    assert titles(store) == ["outer", "outer again"]


def test_a_failed_statement_is_survived_by_a_savepoint(store):
    store.write(put("taken"))

    def write(conn: Connection) -> None:
        with suppress(StoreFailed), conn.savepoint():
            put("undone")(conn)
            put("taken")(conn)
        put("kept")(conn)

    store.write(write)
    assert titles(store) == ["taken", "kept"]


def test_a_failed_statement_that_is_passed_over_fails_the_write(store):
    store.write(put("taken"))

    def write(conn: Connection) -> None:
        put("lost")(conn)
        with pytest.raises(StoreFailed):
            put("taken")(conn)

    with pytest.raises(StoreFailed):
        store.write(write)
    assert titles(store) == ["taken"]


def test_nothing_follows_a_failed_statement(store):
    def write(conn: Connection) -> None:
        with pytest.raises(StoreFailed):
            conn.execute("INSERT INTO nowhere VALUES (1)")
        put("lost")(conn)

    with pytest.raises(StoreFailed):
        store.write(write)
    assert titles(store) == []


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
def test_a_broken_rule_or_statement_is_a_failure_chained_to_its_cause(store, sql):
    store.write(put("taken"))
    with pytest.raises(StoreFailed) as failure:
        store.write(lambda conn: conn.execute(sql))
    assert failure.value.__cause__ is not None
    assert not failure.value.transient
    assert titles(store) == ["taken"]


def test_a_missing_parameter_is_the_programmers_mistake(store):
    with pytest.raises(KeyError):
        store.write(lambda conn: conn.execute("INSERT INTO thing (title) VALUES (:title)"))


def test_a_read_cannot_write(store):
    with pytest.raises(StoreFailed):
        store.read(put("no"))
    assert titles(store) == []


def test_a_connection_ends_with_its_function(store):
    kept: list[Connection] = []
    store.write(kept.append)
    store.read(kept.append)
    for conn in kept:
        with pytest.raises(RuntimeError, match="ended"):
            conn.one("SELECT 1")


def test_a_read_is_one_snapshot(store):
    store.write(bump)
    begun, written = threading.Event(), threading.Event()

    def read(conn: Connection) -> list[object]:
        seen: list[object] = [conn.one("SELECT n FROM counter")]
        begun.set()
        assert written.wait(PATIENCE)
        return [*seen, conn.one("SELECT n FROM counter")]

    answers: list[object] = []
    reader = threading.Thread(target=lambda: answers.extend(store.read(read)))
    reader.start()
    assert begun.wait(PATIENCE)
    store.write(bump)
    written.set()
    reader.join(PATIENCE)
    assert answers == [(1,), (1,)]
    assert store.read(lambda conn: conn.one("SELECT n FROM counter")) == (2,)


def test_a_reader_does_not_see_what_is_not_committed(store):
    def write(conn: Connection) -> object:
        put("half")(conn)
        return titles(store)

    assert store.write(write) == []
    assert titles(store) == ["half"]


def test_a_write_inside_a_write_is_refused(store):
    with pytest.raises(RuntimeError, match="inside a write"):
        store.write(lambda _: store.write(put("no")))
    store.write(put("yes"))
    assert titles(store) == ["yes"]


def test_a_write_on_the_event_loop_is_refused_and_a_read_is_not(store):
    async def main() -> list[str]:
        with pytest.raises(RuntimeError, match="event loop"):
            store.write(put("no"))
        await asyncio.to_thread(store.write, put("yes"))
        return titles(store)

    assert asyncio.run(main()) == ["yes"]


def test_the_engine_tells_how_it_locks(store):
    words = store.write(lambda conn: (conn.engine, conn.for_update, conn.skip_locked))
    assert (
        words
        == {
            "sqlite": ("sqlite", "", ""),
            "postgres": ("postgres", "FOR UPDATE", "FOR UPDATE SKIP LOCKED"),
        }[store.engine]
    )
    assert store.commit_may_be_unknown == (store.engine == "postgres")


def test_ready_while_open_and_not_after(url):
    store = open_store(url, migrations=MIGRATIONS)
    store.check()
    store.write(put("kept"))
    store.later(put("kept too"))
    store.close()
    store.close()
    for use in (
        store.check,
        store.flush,
        lambda: store.read(bump),
        lambda: store.write(bump),
        lambda: store.later(bump),
    ):
        with pytest.raises(StoreUnreachable):
            use()
    again = open_store(url, migrations=MIGRATIONS)
    assert titles(again) == ["kept", "kept too"]
    again.close()


def test_commits_are_counted_and_observed(store):
    sizes: list[int] = []
    store.on_batch(sizes.append)
    before = store.gauges()
    store.write(bump)
    store.write(bump)
    with pytest.raises(ShopfloorError):
        store.write(lambda conn: conn.execute("SELEKT"))
    store.flush()
    after = store.gauges()
    assert after["writes"] - before["writes"] == sum(sizes)
    assert after["commits"] - before["commits"] == len(sizes)
    assert sum(sizes) >= 2
