"""What only PostgreSQL has: transactions lost to others, connections lost to the network, a server that goes away."""

from __future__ import annotations

import builtins
import sys
import threading
import time
from queue import Queue

import psycopg
import pytest

from shopfloor.errors import BadSettings, CommitUnknown, StoreBusy, StoreFailed, StoreFull, StoreUnreachable
from shopfloor.store import postgres as module
from shopfloor.store import postgres_wire
from shopfloor.store.database import Connection, open_store
from shopfloor.store.migrate import load
from shopfloor.store.postgres import PostgresStore
from shopfloor.store.postgres_connection import PostgresConnection
from tests.postgres import PostgresServer
from tests.store.proxy import Proxy
from tests.store.support import MIGRATIONS, PATIENCE, Child, bump, only, put, titles, together, until


@pytest.fixture
def url(postgres):
    return postgres.create_database()


@pytest.fixture
def proxy(url):
    proxy = Proxy(url)
    yield proxy
    proxy.close()


@pytest.fixture
def through_proxy(proxy):
    store = open_store(proxy.url, migrations=MIGRATIONS)
    yield store
    store.close()


@pytest.fixture
def own_server():
    """A server to knock down."""
    server = PostgresServer(fsync=True)
    yield server
    server.stop()


def test_a_transaction_lost_to_another_is_run_again(store):
    store.write(bump)
    runs = []

    def slow(conn: Connection) -> int:
        runs.append(only(conn.one("SELECT n FROM counter")))
        if len(runs) == 1:
            together(lambda: store.write(bump))
        return bump(conn)

    assert store.write(slow) == 3
    assert runs == [1, 2]


def test_it_is_run_again_even_when_its_function_hides_the_loss(store):
    store.write(bump)
    runs = []

    def slow(conn: Connection) -> str:
        runs.append(only(conn.one("SELECT n FROM counter")))
        if len(runs) == 1:
            together(lambda: store.write(bump))
        try:
            with conn.savepoint():
                bump(conn)
        except StoreBusy:
            return "given up"
        return "done"

    assert store.write(slow) == "done"
    assert runs == [1, 2]
    assert store.read(lambda conn: conn.one("SELECT n FROM counter")) == (3,)


def test_a_deadlock_is_run_again(store):
    for name in ("a", "b"):
        store.write(lambda conn, name=name: bump(conn, name))
    both_hold_one = threading.Barrier(2)

    def cross(first: str, second: str):
        waited: list[bool] = []

        def write(conn: Connection) -> None:
            bump(conn, first)
            if not waited:
                waited.append(True)
                both_hold_one.wait(PATIENCE)
            bump(conn, second)

        return lambda: store.write(write)

    assert together(cross("a", "b"), cross("b", "a")) == [None, None]
    assert store.read(lambda conn: conn.all("SELECT n FROM counter")) == [(3,), (3,)]


def test_whoever_keeps_losing_is_busy_in_the_end(store, monkeypatch):
    monkeypatch.setattr(module, "TRIES", 3)
    store.write(bump)

    def hopeless(conn: Connection) -> None:
        conn.one("SELECT n FROM counter")
        together(lambda: store.write(bump))
        bump(conn)

    with pytest.raises(StoreBusy):
        store.write(hopeless)


def test_a_connection_lost_in_mid_transaction_is_made_up_for(store, url):
    runs = []

    def write(conn: Connection) -> int:
        runs.append(only(conn.one("SELECT pg_backend_pid()")))
        put("once")(conn)
        if len(runs) == 1:
            terminate(url, runs[0])
        return bump(conn)

    assert store.write(write) == 1
    assert len(set(runs)) == 2
    assert titles(store) == ["once"]


def test_idle_connections_that_died_are_made_up_for(store, url):
    pids = set(together(*[lambda: store.read(lambda conn: (conn.one("SELECT pg_sleep(0.05)"), pid(conn))[1])] * 6))
    assert len(pids) > 1
    for each in pids:
        terminate(url, each)
    assert store.write(bump) == 1
    assert store.read(lambda conn: conn.one("SELECT n FROM counter")) == (1,)


def pid(conn: Connection) -> int:
    return only(conn.one("SELECT pg_backend_pid()"))


def terminate(url: str, backend: int) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("SELECT pg_terminate_backend(%s, 10000)", (backend,))


@pytest.mark.parametrize("happened", [False, True])
def test_a_connection_lost_while_committing_leaves_the_outcome_unknown(proxy, through_proxy, happened):
    runs = []

    def write(conn: Connection) -> None:
        runs.append(bump(conn))
        if happened:
            proxy.cut_after_the_next_request(conn)
        else:
            proxy.cut_before_the_next_request(conn)

    with pytest.raises(CommitUnknown):
        through_proxy.write(write)
    assert runs == [1]
    assert through_proxy.read(lambda conn: conn.all("SELECT n FROM counter")) == ([(1,)] if happened else [])


def test_a_backend_that_ends_before_the_commit_leaves_the_outcome_unknown(store, url):
    def write(conn: Connection) -> None:
        bump(conn)
        terminate(url, pid(conn))

    with pytest.raises(CommitUnknown):
        store.write(write)
    assert store.read(lambda conn: conn.all("SELECT n FROM counter")) == []


def test_a_connection_cut_between_statements_is_made_up_for(proxy, through_proxy):
    runs = []

    def write(conn: Connection) -> int:
        runs.append(1)
        put("once")(conn)
        if len(runs) < 3:
            proxy.cut_after_the_next_request(conn)
        return bump(conn)

    assert through_proxy.write(write) == 1
    assert len(runs) == 3
    assert titles(through_proxy) == ["once"]


def test_a_connection_that_is_cut_again_and_again_is_unreachable_in_the_end(proxy, through_proxy):
    def write(conn: Connection) -> None:
        put("never")(conn)
        proxy.cut_before_the_next_request(conn)
        bump(conn)

    with pytest.raises(StoreUnreachable):
        through_proxy.write(write)
    assert titles(through_proxy) == []


def test_a_read_whose_connection_is_cut_is_made_up_for(proxy, through_proxy):
    through_proxy.write(bump)
    runs = []

    def read(conn: Connection) -> object:
        runs.append(1)
        found = conn.all("SELECT n FROM counter")
        if len(runs) == 1:
            proxy.cut_before_the_next_request(conn)
            conn.all("SELECT 1")
        return found

    assert through_proxy.read(read) == [(1,)]
    assert len(runs) == 2


def test_a_later_write_that_cannot_be_committed_hurts_no_other(store, url, caplog):
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE TABLE pair (n BIGINT REFERENCES thing (id) DEFERRABLE INITIALLY DEFERRED)")
    store.later(put("one"))
    store.later(lambda conn: conn.execute("INSERT INTO pair VALUES (99)"))
    store.later(put("two"))
    store.flush()
    until(lambda: caplog.records)
    assert titles(store) == ["one", "two"]


def test_foreign_notices_are_taken_as_a_look(store, url):
    told: Queue[frozenset[str]] = Queue()
    store.listen(told.put)
    assert told.get(timeout=PATIENCE) == frozenset()
    with psycopg.connect(url, autocommit=True) as conn:
        for payload in ("", "not json", "5"):
            conn.execute("SELECT pg_notify('shopfloor', %s)", (payload,))
            assert told.get(timeout=PATIENCE) == frozenset()


def test_listeners_look_again_after_a_lost_line(store, url):
    told: Queue[frozenset[str]] = Queue()
    store.listen(told.put)
    assert told.get(timeout=PATIENCE) == frozenset()
    with psycopg.connect(url, autocommit=True) as conn:
        cut = conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE query LIKE 'LISTEN%' AND datname = current_database()"
        ).fetchall()
    assert cut == [(True,)]
    assert told.get(timeout=PATIENCE) == frozenset()
    other = Child("hint", url, "mail")
    other.go()
    assert other.rest() == ["done\n"]
    assert told.get(timeout=PATIENCE) == {"mail"}


def test_a_lost_notifier_tells_the_others_to_look(store, url):
    other = open_store(url, migrations=MIGRATIONS)
    told: Queue[frozenset[str]] = Queue()
    other.listen(told.put)
    assert told.get(timeout=PATIENCE) == frozenset()

    def hint(topic: str):
        return lambda conn: conn.hint(topic)

    store.write(hint("one"))
    assert told.get(timeout=PATIENCE) == {"one"}
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE query LIKE '%pg_notify%'"
            " AND datname = current_database() AND pid <> pg_backend_pid()"
        )
    store.write(hint("lost"))
    until(lambda: store._notifier._missed)
    store.write(hint("three"))
    assert told.get(timeout=PATIENCE) == frozenset()
    other.close()


def test_an_exhausted_pool_is_busy(url, monkeypatch):
    monkeypatch.setattr(module, "POOL_WAIT", 0.2)
    store = PostgresStore(url, load("postgres", MIGRATIONS), pool_size=1)

    def hold(conn: Connection) -> None:
        bump(conn)
        with pytest.raises(StoreBusy):
            store.read(lambda conn: conn.one("SELECT 1"))

    store.write(hold)
    assert store.gauges()["pool_size"] == 1
    store.close()


def test_a_server_that_is_down_is_soon_unreachable_and_forgotten_when_it_is_back(own_server):
    store = open_store(own_server.create_database(), migrations=MIGRATIONS)
    assert store.write(bump) == 1
    own_server.halt()
    began = time.monotonic()
    for use in (store.check, lambda: store.write(bump), lambda: store.read(bump)):
        with pytest.raises(StoreUnreachable):
            use()
    assert time.monotonic() - began < 45
    own_server.start()
    assert until(lambda: _eventually(store)) == 2
    store.check()
    store.close()


def _eventually(store) -> int | None:
    try:
        return store.write(bump)
    except StoreUnreachable:
        return None


def test_nothing_acknowledged_is_lost_when_the_server_crashes(own_server):
    url = own_server.create_database()
    open_store(url, migrations=MIGRATIONS).close()
    writer = Child("ledger", url, "0")
    writer.go()
    said = [writer.line() for _ in range(200)]
    own_server.halt()
    said += writer.rest()
    own_server.start()
    acknowledged = {int(line) for line in said}
    store = open_store(url, migrations=MIGRATIONS)
    rows = sorted(entry for (entry,) in store.read(lambda conn: conn.all("SELECT entry FROM ledger")))
    assert acknowledged <= set(rows)
    assert len(rows) == len(set(rows))
    store.close()


def test_a_read_only_server_is_not_ready(store, url):
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"ALTER DATABASE {url.rsplit('/', 1)[1]} SET default_transaction_read_only = on".encode())
    again = open_store(url, migrations=MIGRATIONS)
    with pytest.raises(StoreFailed, match="read only"):
        again.check()
    again.close()


def test_a_schema_changed_by_another_replica_is_made_up_for(store, url):
    store.write(put("one"))
    for _ in range(3):
        assert store.read(lambda conn: conn.one("SELECT * FROM thing"))[:2] == (1, "one")
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("ALTER TABLE thing ADD COLUMN colour TEXT")
    assert store.read(lambda conn: conn.one("SELECT * FROM thing")) == (1, "one", None, None, None, None)


def test_a_full_disk_has_its_own_name(store):
    with pytest.raises(StoreFull):
        store.write(lambda conn: conn.execute("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100'; END $$"))


def test_held_back_commands_travel_with_statements(store):
    """BEGIN, SAVEPOINT and RELEASE cost no round trip of their own, and a function that does nothing costs none."""
    used = []

    def nothing(conn: Connection) -> None:
        with conn.savepoint():
            pass
        assert isinstance(conn, PostgresConnection)
        used.append(conn.raw.info.transaction_status)

    store.write(nothing)
    assert used == [psycopg.pq.TransactionStatus.IDLE]


def test_a_statement_that_fails_at_first_use_is_prepared_all_the_same(store):
    insert = "INSERT INTO thing (title) VALUES (:title) RETURNING title"
    store.write(put("taken"))
    for _ in range(3):
        with pytest.raises(StoreFailed):
            store.write(lambda conn: conn.one(insert, title="taken"))
        with pytest.raises(StoreFailed):
            store.write(lambda conn: conn.one("SELECT nothing FROM thing"))
        assert store.write(bump)
    assert store.write(lambda conn: conn.one(insert, title="free")) == ("free",)


def test_too_many_statements_are_no_longer_kept_prepared(store, monkeypatch):
    monkeypatch.setattr(postgres_wire, "MOST_PREPARED", 3)

    def many(conn: Connection) -> list[object]:
        return [conn.one(f"SELECT {number % 6} + :n", n=number) for number in range(12)]

    assert store.write(many) == [(number % 6 + number,) for number in range(12)]
    kept = store.read(lambda conn: only(conn.one("SELECT COUNT(*) FROM pg_prepared_statements WHERE name <> ''")))
    assert kept <= 4


def test_without_psycopg_the_error_names_the_package(monkeypatch):
    for name in [
        name
        for name in sys.modules
        if name.startswith(("psycopg", "shopfloor.store.postgres", "shopfloor.store.notify"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("shopfloor.store.postgres")
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("psycopg"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BadSettings, match=r"pip install 'shopfloor\[postgres\]'"):
        open_store("postgresql://localhost/floor")
