"""PostgreSQL only: serialization failures, lost connections and a server that stops."""

from __future__ import annotations

import builtins
import sys
import threading
import time
from queue import Queue

import psycopg
import pytest

from shopfloor.errors import BadSettings, CommitOutcomeUnknown, StoreBusy, StoreFailed, StoreFull, StoreUnreachable
from shopfloor.store import Connection, Store, open_store
from shopfloor.store import postgres as module
from shopfloor.store.migrate import load_migrations
from shopfloor.store.postgres import PostgresStore
from shopfloor.store.postgres_connection import PostgresConnection
from tests.postgres import PostgresServer
from tests.store.proxy import Proxy
from tests.store.support import (
    MIGRATIONS,
    PATIENCE,
    Child,
    first_value,
    increment_counter,
    insert_thing,
    list_titles,
    run_together,
    wait_until,
)


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


def test_transaction_with_a_serialization_failure_is_retried(store):
    store.write(increment_counter)
    runs = []

    def slow(conn: Connection) -> int:
        runs.append(first_value(conn.fetch_one("SELECT n FROM counter")))
        if len(runs) == 1:
            run_together(lambda: store.write(increment_counter))
        return increment_counter(conn)

    assert store.write(slow) == 3
    assert runs == [1, 2]


def test_serialization_failure_hidden_by_the_function_is_retried(store):
    store.write(increment_counter)
    runs = []

    def slow(conn: Connection) -> str:
        runs.append(first_value(conn.fetch_one("SELECT n FROM counter")))
        if len(runs) == 1:
            run_together(lambda: store.write(increment_counter))
        try:
            with conn.savepoint():
                increment_counter(conn)
        except StoreBusy:
            return "given up"
        return "done"

    assert store.write(slow) == "done"
    assert runs == [1, 2]
    assert store.read(lambda conn: conn.fetch_one("SELECT n FROM counter")) == (3,)


def test_deadlock_is_retried(store):
    for name in ("a", "b"):
        store.write(lambda conn, name=name: increment_counter(conn, name))
    both_hold_one = threading.Barrier(2)

    def cross(first: str, second: str):
        waited: list[bool] = []

        def write(conn: Connection) -> None:
            increment_counter(conn, first)
            if not waited:
                waited.append(True)
                both_hold_one.wait(PATIENCE)
            increment_counter(conn, second)

        return lambda: store.write(write)

    assert run_together(cross("a", "b"), cross("b", "a")) == [None, None]
    assert store.read(lambda conn: conn.fetch_all("SELECT n FROM counter")) == [(3,), (3,)]


def test_transaction_that_keeps_conflicting_ends_as_busy(store, monkeypatch):
    monkeypatch.setattr(module, "MAX_ATTEMPTS", 3)
    store.write(increment_counter)

    def hopeless(conn: Connection) -> None:
        conn.fetch_one("SELECT n FROM counter")
        run_together(lambda: store.write(increment_counter))
        increment_counter(conn)

    with pytest.raises(StoreBusy):
        store.write(hopeless)


def test_transaction_is_retried_after_a_lost_connection(store, url):
    runs = []

    def write(conn: Connection) -> int:
        runs.append(first_value(conn.fetch_one("SELECT pg_backend_pid()")))
        insert_thing("once")(conn)
        if len(runs) == 1:
            terminate(url, runs[0])
        return increment_counter(conn)

    assert store.write(write) == 1
    assert len(set(runs)) == 2
    assert list_titles(store) == ["once"]


def test_dead_idle_connections_are_replaced(store, url):
    pids = set(
        run_together(*[lambda: store.read(lambda conn: (conn.fetch_one("SELECT pg_sleep(0.05)"), pid(conn))[1])] * 6)
    )
    assert len(pids) > 1
    for each in pids:
        terminate(url, each)
    assert store.write(increment_counter) == 1
    assert store.read(lambda conn: conn.fetch_one("SELECT n FROM counter")) == (1,)


def pid(conn: Connection) -> int:
    return first_value(conn.fetch_one("SELECT pg_backend_pid()"))


def terminate(url: str, backend: int) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("SELECT pg_terminate_backend(%s, 10000)", (backend,))


@pytest.mark.parametrize("happened", [False, True])
def test_a_connection_lost_while_committing_leaves_the_outcome_unknown(proxy, through_proxy, happened):
    runs = []

    def write(conn: Connection) -> None:
        runs.append(increment_counter(conn))
        if happened:
            proxy.cut_after_the_next_request(conn)
        else:
            proxy.cut_before_the_next_request(conn)

    with pytest.raises(CommitOutcomeUnknown):
        through_proxy.write(write)
    assert runs == [1]
    assert through_proxy.read(lambda conn: conn.fetch_all("SELECT n FROM counter")) == ([(1,)] if happened else [])


@pytest.mark.parametrize("happened", [False, True])
@pytest.mark.parametrize("others", [0, 3], ids=["alone", "in a batch"])
def test_deferred_write_whose_commit_is_lost_takes_effect_once(proxy, through_proxy, happened, others):
    cuts: list[int] = []

    def write(conn: Connection) -> None:
        insert_thing("once")(conn)
        if not cuts:
            cuts.append(1)
            (proxy.cut_after_the_next_request if happened else proxy.cut_before_the_next_request)(conn)

    def write_batch(conn: Connection) -> None:
        # Queued while the queue's own worker is busy with this one, so that they are one batch.
        for number in range(others):
            through_proxy.later(insert_thing(f"other {number}"))
        through_proxy.later(write)

    through_proxy.later(write_batch)
    wait_until(lambda: cuts and len(list_titles(through_proxy)) > others)
    through_proxy.flush()  # a second effect would be there by now
    assert sorted(list_titles(through_proxy)) == ["once", *(f"other {number}" for number in range(others))]
    assert through_proxy.gauges()["deferred_dropped"] == 0


@pytest.mark.parametrize("ahead", [0, 1_000_000], ids=["given out again", "not given out yet"])
def test_deferred_write_does_not_take_the_transaction_of_another_for_its_own(store, ahead):
    # After a crash or a failover, ids of transactions that were lost are given out again.
    of_another = store.write(lambda conn: conn.load_transaction_id())
    write = module._DeferredWrite(insert_thing("once"), lambda conn: conn.fetch_one("SELECT 1 FROM thing") is not None)
    write._unknown = str(int(of_another) + ahead)
    store.write(write)
    assert list_titles(store) == ["once"]
    write.expect_outcome()
    store.write(write)
    assert list_titles(store) == ["once"]


def test_a_backend_that_ends_before_the_commit_leaves_the_outcome_unknown(store, url):
    def write(conn: Connection) -> None:
        increment_counter(conn)
        terminate(url, pid(conn))

    with pytest.raises(CommitOutcomeUnknown):
        store.write(write)
    assert store.read(lambda conn: conn.fetch_all("SELECT n FROM counter")) == []


def test_transaction_is_retried_when_its_connection_is_cut_between_statements(proxy, through_proxy):
    runs = []

    def write(conn: Connection) -> int:
        runs.append(1)
        insert_thing("once")(conn)
        if len(runs) < 3:
            proxy.cut_after_the_next_request(conn)
        return increment_counter(conn)

    assert through_proxy.write(write) == 1
    assert len(runs) == 3
    assert list_titles(through_proxy) == ["once"]


def test_repeatedly_cut_connection_ends_as_unreachable(proxy, through_proxy):
    def write(conn: Connection) -> None:
        insert_thing("never")(conn)
        proxy.cut_before_the_next_request(conn)
        increment_counter(conn)

    with pytest.raises(StoreUnreachable):
        through_proxy.write(write)
    assert list_titles(through_proxy) == []


def test_read_is_retried_when_its_connection_is_cut(proxy, through_proxy):
    through_proxy.write(increment_counter)
    runs = []

    def read(conn: Connection) -> object:
        runs.append(1)
        found = conn.fetch_all("SELECT n FROM counter")
        if len(runs) == 1:
            proxy.cut_before_the_next_request(conn)
            conn.fetch_all("SELECT 1")
        return found

    assert through_proxy.read(read) == [(1,)]
    assert len(runs) == 2


def test_deferred_write_that_cannot_be_committed_affects_no_other(store, url, caplog):
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE TABLE pair (n BIGINT REFERENCES thing (id) DEFERRABLE INITIALLY DEFERRED)")
    store.later(insert_thing("one"))
    store.later(lambda conn: conn.execute("INSERT INTO pair VALUES (99)"))
    store.later(insert_thing("two"))
    store.flush()
    wait_until(lambda: caplog.records)
    assert list_titles(store) == ["one", "two"]


def test_unknown_notification_makes_listeners_poll(store, url):
    notifications: Queue[frozenset[str]] = Queue()
    store.listen(notifications.put)
    assert notifications.get(timeout=PATIENCE) == frozenset()
    with psycopg.connect(url, autocommit=True) as conn:
        for payload in ("", "not json", "5"):
            conn.execute("SELECT pg_notify('shopfloor', %s)", (payload,))
            assert notifications.get(timeout=PATIENCE) == frozenset()


def test_listeners_poll_after_a_lost_connection(store, url):
    notifications: Queue[frozenset[str]] = Queue()
    store.listen(notifications.put)
    assert notifications.get(timeout=PATIENCE) == frozenset()
    with psycopg.connect(url, autocommit=True) as conn:
        cut = conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE query LIKE 'LISTEN%' AND datname = current_database()"
        ).fetchall()
    assert cut == [(True,)]
    assert notifications.get(timeout=PATIENCE) == frozenset()
    other = Child("notify", url, "mail")
    other.start()
    assert other.read_rest() == ["done\n"]
    assert notifications.get(timeout=PATIENCE) == {"mail"}


def test_lost_notifier_connection_makes_listeners_poll(store, url):
    other = open_store(url, migrations=MIGRATIONS)
    notifications: Queue[frozenset[str]] = Queue()
    other.listen(notifications.put)
    assert notifications.get(timeout=PATIENCE) == frozenset()

    def notify(topic: str):
        return lambda conn: conn.notify_on_commit(topic)

    store.write(notify("one"))
    assert notifications.get(timeout=PATIENCE) == {"one"}
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE query LIKE '%pg_notify%'"
            " AND datname = current_database() AND pid <> pg_backend_pid()"
        )
    # Its first commit after the loss is notified, not only the one after it.
    store.write(notify("two"))
    assert notifications.get(timeout=PATIENCE) in ({"two"}, frozenset())
    other.close()


def test_missed_notification_is_made_up_for_without_another_commit(store, url, monkeypatch):
    other = open_store(url, migrations=MIGRATIONS)
    notifications: Queue[frozenset[str]] = Queue()
    other.listen(notifications.put)
    assert notifications.get(timeout=PATIENCE) == frozenset()
    failures = iter([StoreUnreachable(), StoreUnreachable()])
    connect = store._notifier._connect

    def connect_third() -> psycopg.Connection:
        for failure in failures:
            raise failure
        return connect()

    monkeypatch.setattr(store._notifier, "_connect", connect_third)
    store.write(lambda conn: conn.notify_on_commit("lost"))
    assert notifications.get(timeout=PATIENCE) == frozenset()
    other.close()


def test_an_exhausted_pool_is_busy(url, monkeypatch):
    monkeypatch.setattr(module, "POOL_TIMEOUT_SECONDS", 0.2)
    store = PostgresStore(url, load_migrations("postgres", MIGRATIONS), pool_size=1)

    def hold(conn: Connection) -> None:
        increment_counter(conn)
        with pytest.raises(StoreBusy):
            store.read(lambda conn: conn.fetch_one("SELECT 1"))

    store.write(hold)
    assert store.gauges()["pool_size"] == 1
    store.close()


def test_stopped_server_is_unreachable_within_seconds_and_used_again_after_its_restart(own_server):
    store = open_store(own_server.create_database(), migrations=MIGRATIONS)
    assert store.write(increment_counter) == 1
    own_server.halt()
    began = time.monotonic()
    for use in (store.check, lambda: store.write(increment_counter), lambda: store.read(increment_counter)):
        with pytest.raises(StoreUnreachable):
            use()
    assert time.monotonic() - began < 45
    own_server.start()
    assert wait_until(lambda: _try_increment(store)) == 2
    store.check()
    store.close()


def _try_increment(store) -> int | None:
    try:
        return store.write(increment_counter)
    except StoreUnreachable:
        return None


def test_acknowledged_writes_survive_a_crash_of_the_server(own_server):
    url = own_server.create_database()
    open_store(url, migrations=MIGRATIONS).close()
    writer = Child("write_ledger", url, "0")
    writer.start()
    said = [writer.read_line() for _ in range(200)]
    own_server.halt()
    said += writer.read_rest()
    own_server.start()
    acknowledged = {int(line) for line in said}
    store = open_store(url, migrations=MIGRATIONS)
    rows = sorted(entry for (entry,) in store.read(lambda conn: conn.fetch_all("SELECT entry FROM ledger")))
    assert acknowledged <= set(rows)
    assert len(rows) == len(set(rows))
    store.close()


@pytest.mark.parametrize(("configured", "used"), [("off", "on"), ("local", "local"), ("on", "on")])
def test_acknowledged_commits_are_durable_where_the_database_has_switched_it_off(store, url, configured, used):
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = {configured}")
    again = open_store(url, migrations=MIGRATIONS)
    assert again.read(lambda conn: conn.fetch_one("SHOW synchronous_commit")) == (used,)
    again.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} RESET synchronous_commit")


def test_a_read_only_server_is_not_ready(store, url):
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"ALTER DATABASE {url.rsplit('/', 1)[1]} SET default_transaction_read_only = on".encode())
    again = open_store(url, migrations=MIGRATIONS)
    with pytest.raises(StoreFailed, match="read only"):
        again.check()
    again.close()


def test_statement_is_prepared_again_after_another_replica_changed_the_schema(store, url):
    store.write(insert_thing("one"))
    for _ in range(3):
        assert store.read(lambda conn: conn.fetch_one("SELECT * FROM thing"))[:2] == (1, "one")
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("ALTER TABLE thing ADD COLUMN colour TEXT")
    assert store.read(lambda conn: conn.fetch_one("SELECT * FROM thing")) == (1, "one", None, None, None, None)


def test_full_disk_has_its_own_error(store):
    with pytest.raises(StoreFull):
        store.write(lambda conn: conn.execute("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100'; END $$"))


def test_concurrent_transactions_of_replicas_have_different_counter_slots(url):
    stores = [open_store(url, migrations=MIGRATIONS) for _ in range(2)]
    together = threading.Barrier(8)

    def read_slot(conn: Connection) -> int:
        conn.fetch_one("SELECT 1")
        together.wait(PATIENCE)
        return conn.counter_slot

    assert len(set(run_together(*[lambda s=store: s.write(read_slot) for store in stores * 4]))) == 8
    for store in stores:
        store.close()
    # Of this database alone: other tests have databases on the same server.
    taken = """
        SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
        WHERE locktype = 'advisory' AND classid = %s AND datname = current_database()
        """
    with psycopg.connect(url, autocommit=True) as conn:
        wait_until(lambda: conn.execute(taken, (module.COUNTER_LOCK_CLASS,)).fetchone() == (0,))


def test_deferred_commands_are_sent_with_the_next_statement(store):
    """BEGIN, SAVEPOINT and RELEASE cost no round trip of their own, and a function that does nothing costs none."""
    used = []

    def nothing(conn: Connection) -> None:
        with conn.savepoint():
            pass
        assert isinstance(conn, PostgresConnection)
        used.append(conn.raw.info.transaction_status)

    store.write(nothing)
    assert used == [psycopg.pq.TransactionStatus.IDLE]


def test_statement_that_fails_at_first_use_is_still_prepared(store):
    insert = "INSERT INTO thing (title) VALUES (:title) RETURNING title"
    store.write(insert_thing("taken"))
    for _ in range(3):
        with pytest.raises(StoreFailed):
            store.write(lambda conn: conn.fetch_one(insert, title="taken"))
        with pytest.raises(StoreFailed):
            store.write(lambda conn: conn.fetch_one("SELECT nothing FROM thing"))
        assert store.write(increment_counter)
    assert store.write(lambda conn: conn.fetch_one(insert, title="free")) == ("free",)


def test_prepared_statements_are_limited(url, monkeypatch):
    monkeypatch.setattr(module, "MAX_PREPARED", 3)

    def many(conn: Connection) -> list[object]:
        return [conn.fetch_one(f"SELECT {number % 6} + :n", n=number) for number in range(12)]

    store = open_store(url, migrations=MIGRATIONS)
    assert store.write(many) == [(number % 6 + number,) for number in range(12)]
    kept = store.read(
        lambda conn: first_value(conn.fetch_one("SELECT COUNT(*) FROM pg_prepared_statements WHERE name <> ''"))
    )
    assert kept <= 4
    store.close()


def test_without_psycopg_the_error_names_the_package(monkeypatch):
    for name in [
        name
        for name in sys.modules
        if name.startswith(("psycopg", "shopfloor.store.postgres", "shopfloor.store.postgres_notify"))
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


def test_read_only_server_is_away_until_it_takes_writes_again(own_server):
    store = open_store(own_server.create_database(), migrations=MIGRATIONS)
    try:
        own_server.set_read_only(True)
        # The processes of the server load the setting one after the other.
        wait_until(lambda: _is_unreachable(store))
        store.later(insert_thing("deferred"))
        with pytest.raises((StoreFailed, StoreUnreachable)):
            store.check()
        own_server.set_read_only(False)
        wait_until(lambda: list_titles(store) == ["deferred"])
        assert store.gauges()["deferred_dropped"] == 0
    finally:
        store.close()


def _is_unreachable(store: Store) -> bool:
    try:
        store.write(increment_counter)
    except StoreUnreachable:
        return True
    return False
