"""PostgreSQL: the store that many replicas of the floor share."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count
from threading import Lock, Thread, get_ident, local
from typing import Any, TypeVar, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from shopfloor.errors import BadSettings, StoreBusy, StoreFailed, StoreUnreachable
from shopfloor.store.interface import Callback, Connection, Engine
from shopfloor.store.jobs import Job, Jobs, answer, log_failures, nested, refuse_on_event_loop
from shopfloor.store.listeners import Listeners, guarded
from shopfloor.store.migrate import CURRENT, Migration, missing
from shopfloor.store.notify import Listening, Notifier, own_name
from shopfloor.store.postgres_connection import READ, WRITE, PostgresConnection, Session, translated
from shopfloor.store.postgres_values import adapt
from shopfloor.store.postgres_wire import Wire

POOL_SIZE = 16
FIRST_WAIT = 1.0
POOL_WAIT = 5.0
CONNECT_WAIT = 5
TRIES = 20
PATIENT_TRIES = 3
DROPS = 3
FIRST_PAUSE = 0.001
LONGEST_PAUSE = 0.1
MIGRATION_LOCK = 0x5340F100
NETWORK: dict[str, str | int | None] = {
    "connect_timeout": CONNECT_WAIT,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "shopfloor",
}
# A replica that has vanished must not keep its locks for hours.
LIMITS = {"lock_timeout": 30, "idle_in_transaction_session_timeout": 60, "tcp_keepalives_idle": 30}
VERSION_TABLE = """
CREATE TABLE IF NOT EXISTS schema_version (
    number BIGINT PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL
)"""

T = TypeVar("T")
Raw = psycopg.Connection[TupleRow]


class PostgresStore:
    engine: Engine = "postgres"
    commit_may_be_unknown: bool = True

    def __init__(self, url: str, migrations: list[Migration], pool_size: int = POOL_SIZE) -> None:
        self._address = _address(url)
        with _visit(self._address) as raw:
            _migrate(raw, migrations)
        self._pool = ConnectionPool(
            self._address,
            min_size=1,
            max_size=pool_size,
            timeout=POOL_WAIT,
            reconnect_timeout=POOL_WAIT,
            connection_class=Session,
            kwargs={"autocommit": True},
            configure=_configure,
            name="shopfloor",
            open=True,
        )
        self._commits = 0
        self._writes = 0
        self._counting = Lock()
        self._observers: tuple[Callable[[int], None], ...] = ()
        self._inside = local()
        self._losers = Lock()
        self._probing = Lock()
        self._probed = 0.0
        self._closed = False
        name = own_name()
        self._listeners = Listeners()
        self._listening = Listening(self._connect, self._listeners, name)
        self._notifier = Notifier(self._connect, self._listeners, name)
        self._jobs = Jobs()
        self._thread = Thread(target=self._work, name="shopfloor-later", daemon=True)
        self._thread.start()

    def write(self, fn: Callable[[Connection], T]) -> T:
        refuse_on_event_loop()
        if getattr(self._inside, "write", False):
            raise nested()
        self._inside.write = True
        try:
            return self._persist(fn, WRITE)
        finally:
            self._inside.write = False

    def read(self, fn: Callable[[Connection], T]) -> T:
        return self._persist(fn, READ)

    def later(self, fn: Callable[[Connection], Any]) -> None:
        self._jobs.defer(fn)

    def flush(self) -> None:
        self._jobs.run(lambda _: None)  # the queue keeps its order

    def listen(self, callback: Callback) -> Callable[[], None]:
        end = self._listeners.add(callback)
        self._listening.start()
        return end

    def epoch(self) -> int | None:
        return None  # replicas hear of changes, and ask again soon

    def gauges(self) -> dict[str, float]:
        stats = self._pool.get_stats()
        return {
            "queue_depth": len(self._jobs) + stats.get("requests_waiting", 0),
            "pool_size": stats.get("pool_size", 0),
            "pool_available": stats.get("pool_available", 0),
            "commits": self._commits,
            "writes": self._writes,
        }

    def on_batch(self, observer: Callable[[int], None]) -> None:
        self._observers = (*self._observers, guarded(observer))

    def check(self) -> None:
        if self.write(lambda conn: conn.one("SHOW transaction_read_only")) != ("off",):
            raise StoreFailed("The database is read only.")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._jobs.close()
        self._thread.join()
        self._notifier.close()
        self._listening.close()
        self._pool.close()

    def _persist(self, fn: Callable[[Connection], T], begin: bytes) -> T:
        """What `fn` returned, its transaction committed; run again while it is lost to others or to the network."""
        drops = 0
        for attempt in count(1):
            # Whoever has lost often goes one at a time, so that the losers do not keep beating each other.
            with self._losers if attempt > PATIENT_TRIES else nullcontext():
                conn = PostgresConnection(self._borrow(), begin)
                result = self._attempt(conn, fn, begin)
            if conn.lost is None:
                break
            if isinstance(conn.lost, StoreUnreachable):
                drops += 1
                self._pool.check()  # the other idle connections are likely to be dead too
            if attempt == TRIES or drops == DROPS:
                raise conn.lost
            time.sleep(random.uniform(0, min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)))  # nosec B311
        if begin == WRITE:
            self._published(conn.topics)
        return result

    def _attempt(self, conn: PostgresConnection, fn: Callable[[Connection], T], begin: bytes) -> T:
        try:
            result = fn(conn)
            conn.settle()
            if begin == WRITE:
                conn.commit()
            return result
        except Exception:
            if conn.lost is None:
                raise
            return cast("T", None)
        finally:
            conn.rollback()
            self._pool.putconn(conn.raw)

    def _published(self, topics: list[str]) -> None:
        with self._counting:
            self._commits += 1
            self._writes += 1
        for observer in self._observers:
            observer(1)
        if topics:
            self._notifier.tell(topics)

    def _borrow(self) -> Session:
        try:
            try:
                return self._pool.getconn(FIRST_WAIT)
            except PoolTimeout:
                self._probe()
                return self._pool.getconn(POOL_WAIT)
        except PoolTimeout as error:
            raise StoreBusy from error
        except PoolClosed as error:
            raise StoreUnreachable("The store is closed.") from error

    def _probe(self) -> None:
        """Raise when the server is not there; many who wait ask for it once."""
        with self._probing:
            if time.monotonic() > self._probed + FIRST_WAIT:
                self._connect().close()
                self._probed = time.monotonic()

    def _connect(self) -> Raw:
        return _connect(self._address)

    def _work(self) -> None:
        """Write what nobody waits for, all that has come up in one transaction."""
        self._jobs.taker_ident = get_ident()
        self._inside.write = True
        while (batch := self._jobs.take(None)) is not None:
            self._write_later(batch)
            answer(batch)
            log_failures(batch)

    def _write_later(self, batch: list[Job]) -> None:
        try:
            self._persist(partial(_together, batch), WRITE)
        except StoreFailed as error:
            if len(batch) == 1:
                batch[0].error = error
            else:  # one of them cannot be committed: find out which
                for job in batch:
                    self._write_later([job])
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread must live
            for job in batch:
                job.error = job.error or error


def postgres_schema_version(url: str) -> int:
    """The number of the last applied migration; 0 for an empty database."""
    with _visit(_address(url)) as raw:
        return _version(raw)


def _together(batch: list[Job], conn: Connection) -> None:
    for job in batch:
        job.error = None
        try:
            with conn.savepoint():
                job.fn(conn)
        except Exception as error:  # noqa: BLE001 - one job's failure is its own
            job.error = error


def _address(url: str) -> str:
    try:
        return make_conninfo("", **(NETWORK | conninfo_to_dict(url)))
    except psycopg.Error as error:
        # Its text may quote a part of the address, and with it the password.
        raise BadSettings("The address of the PostgreSQL database is not valid.") from error


def _connect(address: str) -> Raw:
    try:
        return psycopg.connect(address, autocommit=True)
    except psycopg.Error as error:
        raise StoreUnreachable from error


@contextmanager
def _visit(address: str) -> Iterator[Raw]:
    """A connection for a person's errand, who needs to read why it failed."""
    try:
        with _connect(address) as raw:
            yield raw
    except StoreUnreachable as error:
        raise StoreUnreachable(f"The store cannot be reached: {error.__cause__}") from error.__cause__
    except psycopg.Error as error:
        raise translated(error) from error


def _configure(raw: Session) -> None:
    adapt(raw)
    raw.wire = Wire(raw)
    for name, seconds in LIMITS.items():
        raw.execute(f"SET {name} = '{seconds}s'".encode())


def _migrate(raw: Raw, known: list[Migration]) -> None:
    """Bring the schema up to date: each migration in one transaction with its version row."""
    if not missing(_version(raw), known):
        return
    raw.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))  # let go with the connection
    raw.execute(VERSION_TABLE)
    for migration in missing(_version(raw), known):
        with raw.transaction():
            raw.execute(migration.sql.encode())
            raw.execute(
                "INSERT INTO schema_version VALUES (%s, %s, %s)",
                (migration.number, migration.name, time.time_ns() // 1000),
            )


def _version(raw: Raw) -> int:
    table = raw.execute("SELECT to_regclass('schema_version')").fetchone()
    if table is None or table[0] is None:
        return 0
    row = raw.execute(CURRENT).fetchone()
    return int(row[0]) if row else 0
