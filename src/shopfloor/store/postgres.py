"""PostgreSQL: the store that many replicas share."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock, Thread, get_ident, local
from typing import Any, TypeVar, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from shopfloor.errors import BadSettings, ShopfloorError, StoreBusy, StoreFailed, StoreUnreachable
from shopfloor.store import cooperative
from shopfloor.store.credential_version import CREDENTIALS_TOPIC, ProcessVersion, concerns_credentials
from shopfloor.store.listeners import Listeners, guard
from shopfloor.store.migrate import (
    ADD_DIGEST_SQL,
    APPLIED_SQL,
    CURRENT_VERSION_SQL,
    Migration,
    check_applied,
    find_missing,
    refuse_outdated,
)
from shopfloor.store.postgres_connection import (
    ALL_WORKSPACES,
    COUNTER_SLOTS,
    READ,
    WRITE,
    PostgresConnection,
    Session,
    translate_error,
)
from shopfloor.store.postgres_leadership import Leadership
from shopfloor.store.postgres_notify import Listener, Notifier, new_sender_name
from shopfloor.store.postgres_values import adapt
from shopfloor.store.postgres_watchdog import PROBE_TIMEOUT_SECONDS, Watchdog
from shopfloor.store.postgres_wire import Wire
from shopfloor.store.postgres_writers import MAX_BATCH, WriterPool
from shopfloor.store.protocol import Callback, Connection, Engine
from shopfloor.store.transfer import TABLES_SQL
from shopfloor.store.write_queue import (
    Job,
    WriteQueue,
    nested_write_error,
    release_callers,
)

POOL_SIZE = 16
READERS = 4
"""Threads for reads of calls that run on the event loop, such as looking up a caller."""
PROBE_AFTER_SECONDS = 1.0
"""How long a caller waits for a free connection before it checks whether the server can be reached at all."""
POOL_TIMEOUT_SECONDS = 5.0
CONNECT_TIMEOUT_SECONDS = 5
MAX_ATTEMPTS = 20
MAX_PARALLEL_ATTEMPTS = 3
"""A transaction that has lost this many attempts runs one at a time with the other losers."""
MAX_DROPPED_CONNECTIONS = 3
FIRST_BACKOFF_SECONDS = 0.001
MAX_BACKOFF_SECONDS = 0.1
MIGRATION_LOCK = 0x5340F100
COUNTER_LOCK_CLASS = 0x53484F51
NETWORK_OPTIONS: dict[str, str | int | None] = {
    "connect_timeout": CONNECT_TIMEOUT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "shopfloor",
}
# A replica that has vanished must not keep its locks for hours.
SESSION_LIMITS_SECONDS = {"lock_timeout": 30, "idle_in_transaction_session_timeout": 60, "tcp_keepalives_idle": 30}
MAX_PREPARED = 1_000
# A server or a role with `synchronous_commit = off` would lose acknowledged writes. Stronger values are kept.
_KEEP_COMMITS_DURABLE = b"""
SELECT set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), %s)
"""
TRANSACTION_SETTINGS = (_KEEP_COMMITS_DURABLE % b"true", b"SET LOCAL lock_timeout = '30s'")
# The lock ends with the connection, which frees the slot. With the server's process id modulo 64, two connections of
# one replica could share a slot and abort each other: 204 times in 5,000 mails to one inbox.
_TAKE_COUNTER_SLOT = b"""
SELECT slot FROM generate_series(0, %d) AS slot WHERE pg_try_advisory_lock(%d, slot) LIMIT 1
""" % (COUNTER_SLOTS - 1, COUNTER_LOCK_CLASS)
_SET_WORKSPACE = b"SET shopfloor.workspace = '%d'"
VERSION_TABLE = """
CREATE TABLE IF NOT EXISTS schema_version (
    number BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL, digest TEXT
)"""

T = TypeVar("T")
Raw = psycopg.Connection[TupleRow]


class PostgresStore:
    engine: Engine = "postgres"
    commit_may_be_unknown: bool = True
    failure: ShopfloorError | None = None

    def __init__(
        self,
        url: str,
        migrations: list[Migration],
        pool_size: int = POOL_SIZE,
        *,
        migrate: bool = True,
        direct_url: str | None = None,
    ) -> None:
        """Open the store at `url`. If that is a pooler such as PgBouncer, `direct_url` bypasses it."""
        self._address = _address(url)
        # A pooler lends a server connection for one transaction: anything bound to a session needs a direct connection.
        self._direct_address = self._address if direct_url is None else _address(direct_url)
        self._is_pooled = is_pooled = direct_url is not None
        self._workspace = ALL_WORKSPACES
        with _open_connection(self._direct_address) as raw:
            if not migrate:
                refuse_outdated(_version(raw), migrations)
            _migrate(raw, migrations)
        self._begin = self._list_begins()
        self._pool = _open_pool(self._address, pool_size, _configure_pooled if is_pooled else _configure)
        self._commits = 0
        self._writes = 0
        self._counting = Lock()
        self._observers: tuple[Callable[[int], None], ...] = ()
        self._inside = local()
        self._losers = Lock()
        self._watchdog = Watchdog(partial(psycopg.connect, _with_timeout(self._address), autocommit=True))
        self._closed = False
        name = new_sender_name()
        self._credentials = ProcessVersion()
        self._listeners = Listeners()
        self._listeners.add(self._track_credentials)
        self._listener = Listener(self._connect_directly, self._listeners, name)
        self._notifier = Notifier(self._connect_directly, self._listeners, name)
        self._electing = Lock()
        self._leadership: dict[int, Leadership] = {}
        self._writers = WriterPool(
            self._borrow,
            self._give_back,
            lambda: self._begin[WRITE],
            run_alone=lambda fn: self._persist(fn, WRITE),
            on_commit=self._report,
            on_thread_start=self._mark_writer,
        )
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="shopfloor-lookup")
        self._queue = WriteQueue(can_resolve=_expect_outcome)
        self._thread = Thread(target=self._run_loop, name="shopfloor-later", daemon=True)
        self._thread.start()

    def fence(self, workspace: int) -> None:
        self._workspace = workspace
        self._begin = self._list_begins()

    def _list_begins(self) -> dict[bytes, list[bytes]]:
        """Return the commands that begin a transaction. A pooler keeps no session settings, so each one sets them."""
        if not self._is_pooled:
            return {WRITE: [WRITE], READ: [READ]}
        fence = b"SET LOCAL shopfloor.workspace = '%d'" % self._workspace
        return {WRITE: [WRITE, *TRANSACTION_SETTINGS, fence], READ: [READ, fence]}

    def write(self, fn: Callable[[Connection], T]) -> T:
        # A call on the event loop shares its commit with others. A thread can as well write itself.
        if cooperative.is_cooperative():
            return cast("T", self._writers.run(fn))
        cooperative.check_not_on_event_loop()
        if getattr(self._inside, "write", False):
            raise nested_write_error()
        self._inside.write = True
        try:
            return self._persist(fn, WRITE)
        finally:
            self._inside.write = False

    def read(self, fn: Callable[[Connection], T]) -> T:
        if cooperative.is_cooperative():
            return cooperative.run_on(self._readers, lambda: self._persist(fn, READ))
        return self._persist(fn, READ)

    def later(self, fn: Callable[[Connection], Any], is_done: Callable[[Connection], bool] | None = None) -> None:
        self._queue.defer(_DeferredWrite(fn, is_done))

    def flush(self) -> None:
        # A stop flushes once, and must not miss a server that came back since the watchdog looked.
        self._watchdog.look_again()
        # The queue keeps its order, so everything before this is durable.
        self._queue.run(lambda _: None)

    def listen(self, callback: Callback) -> Callable[[], None]:
        end = self._listeners.add(callback)
        self._listener.start()
        return end

    def credential_version(self) -> int:
        return self._credentials.value

    def try_lead(self, workspace: int) -> bool:
        with self._electing:
            if workspace not in self._leadership:
                self._leadership[workspace] = Leadership(self._connect_directly, workspace)
        return self._leadership[workspace].is_held

    def read_clock(self) -> int | None:
        row = self.read(lambda conn: conn.fetch_one("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"))
        assert row is not None
        return int(row[0])

    def gauges(self) -> dict[str, float]:
        stats = self._pool.get_stats()
        return {
            "queue_depth": len(self._queue) + len(self._writers) + stats.get("requests_waiting", 0),
            "deferred_dropped": self._queue.dropped,
            "pool_size": stats.get("pool_size", 0),
            "pool_available": stats.get("pool_available", 0),
            "commits": self._commits,
            "writes": self._writes,
        }

    def on_batch(self, observer: Callable[[int], None]) -> None:
        self._observers = (*self._observers, guard(observer))

    def check(self) -> None:
        self._queue.check_deferred()
        if self.write(lambda conn: conn.fetch_one("SHOW transaction_read_only")) != ("off",):
            raise StoreFailed("The database is read only.")

    def update_statistics(self) -> None:
        """Do nothing: autovacuum does it."""

    def copy_to(self, target: Path) -> None:
        """Raise: PostgreSQL's files belong to its server."""
        raise NotImplementedError("a PostgreSQL store is exported, not copied")

    def find_damage(self) -> list[str]:
        problems = []

        def read_rows(conn: Connection, table: str) -> None:
            conn.see_all_workspaces()
            # Reading every row finds damaged pages, where the server has checksums.
            conn.fetch_one(f"SELECT count(t::text) FROM {table} AS t")

        for (table,) in self.read(lambda conn: conn.fetch_all(TABLES_SQL["postgres"])):
            try:
                self.read(partial(read_rows, table=table))
            except StoreFailed as error:
                problems.append(f"{table}: {error.message}")
        return problems

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # First the writers, then the notifier, which reports the last commits, and finally the pool.
        self._queue.close()
        self._writers.close()
        self._thread.join()
        self._readers.shutdown(wait=True)
        for leadership in self._leadership.values():
            leadership.close()
        self._notifier.close()
        self._listener.close()
        self._watchdog.close()
        self._pool.close()

    def _persist(self, fn: Callable[[Connection], T], begin: bytes) -> T:
        """Run `fn` in a transaction, retrying after a conflict or a lost connection, and return its result."""
        drops = 0
        for attempt in count(1):
            # Transactions that keep losing run one at a time, so that they do not keep aborting each other.
            with self._losers if attempt > MAX_PARALLEL_ATTEMPTS else nullcontext():
                conn = PostgresConnection(self._borrow(), self._begin[begin])
                result = self._attempt(conn, fn, begin)
            if conn.lost is None:
                break
            # The other idle connections are probably dead too.
            if isinstance(conn.lost, StoreUnreachable):
                drops += 1
                if self._watchdog.is_away:
                    raise conn.lost
                self._pool.check()
            if attempt == MAX_ATTEMPTS or drops == MAX_DROPPED_CONNECTIONS:
                raise conn.lost
            # A random pause, so that transactions that aborted each other do not collide again.
            time.sleep(random.uniform(0, min(FIRST_BACKOFF_SECONDS * 2**attempt, MAX_BACKOFF_SECONDS)))  # nosec B311
        if begin == WRITE:
            self._report(1, conn.topics)
        return result

    def _mark_writer(self) -> None:
        """Reject writes from inside a write on this thread."""
        self._inside.write = True

    def _report(self, writes: int, topics: Sequence[str]) -> None:
        """Count a commit and notify listeners of it."""
        with self._counting:
            self._commits += 1
            self._writes += writes
        for observer in self._observers:
            observer(writes)
        # Before the caller gets its answer, not when the notifier gets to it.
        if CREDENTIALS_TOPIC in topics:
            self._credentials.bump()
        if topics:
            self._notifier.notify(topics)

    def _attempt(self, conn: PostgresConnection, fn: Callable[[Connection], T], begin: bytes) -> T:
        try:
            result = fn(conn)
            conn.check_intact()
            if begin == WRITE:
                conn.commit()
            return result
        except Exception:
            if conn.lost is None:
                raise
            # Never used: `_persist` sees that the transaction was lost, and runs it again.
            return cast("T", None)
        finally:
            conn.rollback()
            self._give_back(conn.raw)

    def _track_credentials(self, topics: frozenset[str]) -> None:
        if concerns_credentials(topics):
            self._credentials.bump()

    def _borrow(self) -> Session:
        # The watchdog notices when the server is back. Until then no caller waits for it.
        if self._watchdog.is_away:
            raise StoreUnreachable
        try:
            try:
                session = self._pool.getconn(PROBE_AFTER_SECONDS)
            except PoolTimeout:
                # Either the pool is busy, or the server is away and every caller would wait for the whole timeout.
                self._watchdog.check()
                session = self._pool.getconn(POOL_TIMEOUT_SECONDS)
        except PoolTimeout as error:
            raise StoreBusy from error
        except PoolClosed as error:
            raise StoreUnreachable("The store is closed.") from error
        self._watchdog.begin(session)
        # Once per connection, and outside a transaction: a rollback would undo it.
        if not self._is_pooled and session.workspace != self._workspace:
            try:
                session.execute(_SET_WORKSPACE % self._workspace)
                session.workspace = self._workspace
            except psycopg.Error:
                # The first statement then finds the connection lost, and the transaction runs again on another one.
                session.close()
        return session

    def _give_back(self, session: Session) -> None:
        self._watchdog.end(session)
        self._pool.putconn(session)

    def _connect_directly(self) -> Raw:
        return _connect(self._direct_address)

    def _run_loop(self) -> None:
        """Write deferred jobs: everything queued goes into one transaction."""
        self._queue.worker_id = get_ident()
        self._mark_writer()
        while (batch := self._queue.take(None)) is not None:
            for start in range(0, len(batch), MAX_BATCH):
                self._writers.write(batch[start : start + MAX_BATCH])
            release_callers(batch)
            self._queue.settle_deferred(batch)


class _DeferredWrite:
    """A write that no caller waits for. After a lost COMMIT it is queued again, and then checks the outcome.

    Otherwise it would have to be dropped, and an answered call would have no result in the log.
    """

    __slots__ = ("_fn", "_is_done", "_transaction", "_unknown")

    def __init__(self, fn: Callable[[Connection], Any], is_done: Callable[[Connection], bool] | None = None) -> None:
        self._fn = fn
        self._is_done = is_done
        self._transaction = ""
        self._unknown: str | None = None

    def expect_outcome(self) -> None:
        """Note that the outcome of the last transaction is unknown."""
        # Not every transaction that it ran in: a write that lost a conflict was rolled back in one that committed.
        self._unknown = self._transaction

    def __call__(self, connection: Connection) -> Any:
        assert isinstance(connection, PostgresConnection)
        self._transaction = connection.load_transaction_id()
        if self._unknown is not None:
            if self._has_taken_effect(connection, self._unknown):
                return None
            self._unknown = None
        return self._fn(connection)

    def _has_taken_effect(self, connection: PostgresConnection, transaction: str) -> bool:
        # After a crash or a failover, ids that did not reach the disk or the standby are assigned again. PostgreSQL
        # raises an error for ids that are not assigned yet.
        if int(transaction) >= int(self._transaction):
            return False
        row = connection.fetch_one("SELECT pg_xact_status(CAST(:id AS xid8))", id=transaction)
        assert row is not None
        (status,) = row
        if status == "in progress":
            raise StoreUnreachable("The transaction of a lost connection has not ended.")
        # Committed, but the id may have been reused by another transaction: after a failover, an answered call had no
        # result in the log for that reason.
        return status == "committed" and (self._is_done is None or self._is_done(connection))


def _expect_outcome(job: Job) -> bool:
    assert isinstance(job.fn, _DeferredWrite)
    job.fn.expect_outcome()
    return True


def postgres_schema_version(url: str) -> int:
    """Return the number of the last applied migration; 0 for an empty database."""
    with _open_connection(_address(url)) as raw:
        return _version(raw)


def _address(url: str) -> str:
    try:
        return make_conninfo("", **(NETWORK_OPTIONS | conninfo_to_dict(url)))
    except psycopg.Error as error:
        # Its text may quote part of the address, including the password.
        raise BadSettings("The address of the PostgreSQL database is not valid.") from error


def _with_timeout(address: str) -> str:
    """Return the address with the time that a probe may take."""
    return make_conninfo(address, connect_timeout=PROBE_TIMEOUT_SECONDS)


def _connect(address: str) -> Raw:
    try:
        return psycopg.connect(address, autocommit=True)
    except psycopg.Error as error:
        raise StoreUnreachable from error


@contextmanager
def _open_connection(address: str) -> Iterator[Raw]:
    """Open a connection for start-up, where the operator needs to read why it failed."""
    try:
        with _connect(address) as raw:
            yield raw
    except StoreUnreachable as error:
        raise StoreUnreachable(f"The store cannot be reached: {error.__cause__}") from error.__cause__
    except psycopg.Error as error:
        raise translate_error(error) from error


def _open_pool(address: str, size: int, configure: Callable[[Session], None]) -> ConnectionPool[Session]:
    return ConnectionPool(
        address,
        min_size=1,
        max_size=size,
        timeout=POOL_TIMEOUT_SECONDS,
        reconnect_timeout=POOL_TIMEOUT_SECONDS,
        connection_class=Session,
        kwargs={"autocommit": True},
        configure=configure,
        name="shopfloor",
        open=True,
    )


def _configure(raw: Session) -> None:
    adapt(raw)
    raw.wire = Wire(raw, MAX_PREPARED)
    for name, seconds in SESSION_LIMITS_SECONDS.items():
        raw.execute(f"SET {name} = '{seconds}s'".encode())
    raw.execute(_KEEP_COMMITS_DURABLE % b"false")
    free = raw.execute(_TAKE_COUNTER_SLOT).fetchone()
    raw.counter_slot = _share_counter_slot(raw) if free is None else int(free[0])


def _configure_pooled(raw: Session) -> None:
    """Prepare a connection to a pooler: its server connection, with all settings, changes with each transaction."""
    adapt(raw)
    raw.wire = Wire(raw, max_prepared=0)
    raw.counter_slot = _share_counter_slot(raw)


def _share_counter_slot(raw: Session) -> int:
    """Return the slot of a connection that cannot reserve one: two such connections may abort each other."""
    return raw.pgconn.backend_pid % COUNTER_SLOTS


def _migrate(raw: Raw, known: list[Migration]) -> None:
    """Bring the schema up to date: each migration in one transaction with its version row.

    A new database gets all of them in one transaction: another process that starts at the same time must not find half
    a schema, which looks like that of an older version.
    """
    before = _version(raw)
    if before:
        check_applied(_list_applied(raw), known)
    if not find_missing(before, known):
        return
    raw.execute(_SET_WORKSPACE % ALL_WORKSPACES)
    # Replicas start at the same time, and each migration must run once. The lock is released with the connection.
    raw.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
    raw.execute(VERSION_TABLE)
    if not _has_digests(raw):
        raw.execute(ADD_DIGEST_SQL.encode())
    current = _version(raw)
    with nullcontext() if current else raw.transaction():
        for migration in find_missing(current, known):
            with raw.transaction():
                raw.execute(migration.sql.encode())
                raw.execute(
                    "INSERT INTO schema_version (number, name, applied_at, digest) VALUES (%s, %s, %s, %s)",
                    (migration.number, migration.name, time.time_ns() // 1000, migration.digest),
                )


def _has_digests(raw: Raw) -> bool:
    found = raw.execute(
        "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('schema_version') AND attname = 'digest'"
    )
    return found.fetchone() is not None


def _list_applied(raw: Raw) -> list[tuple[int, str, str | None]]:
    sql = APPLIED_SQL if _has_digests(raw) else APPLIED_SQL.replace("digest", "NULL")
    return [(int(number), str(name), digest) for number, name, digest in raw.execute(sql.encode()).fetchall()]


def _version(raw: Raw) -> int:
    table = raw.execute("SELECT to_regclass('schema_version')").fetchone()
    if table is None or table[0] is None:
        return 0
    row = raw.execute(CURRENT_VERSION_SQL).fetchone()
    return int(row[0]) if row else 0
