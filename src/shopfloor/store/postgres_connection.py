"""One PostgreSQL transaction, as the repositories see it.

BEGIN, SAVEPOINT and RELEASE are held back and travel with the next statement, in one round trip.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, NoReturn

import psycopg
from psycopg import errors as pg
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow

from shopfloor.errors import (
    CommitUnknown,
    ShopfloorError,
    StoreBusy,
    StoreFailed,
    StoreFull,
    StoreUnreachable,
)
from shopfloor.store.interface import Engine, Row
from shopfloor.store.parameters import numbered
from shopfloor.store.postgres_wire import Wire
from shopfloor.store.values import check

WRITE = b"BEGIN ISOLATION LEVEL REPEATABLE READ"
READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_RUN_AGAIN = (pg.SerializationFailure, pg.DeadlockDetected)
_BUSY = (*_RUN_AGAIN, pg.LockNotAvailable, pg.QueryCanceled)


class Session(psycopg.Connection[TupleRow]):
    """A connection of the pool, with its wire."""

    wire: Wire


class PostgresConnection:
    __slots__ = ("_depth", "_ended", "_held", "_sent", "lost", "raw", "topics")

    engine: Engine = "postgres"
    for_update: str = "FOR UPDATE"
    skip_locked: str = "FOR UPDATE SKIP LOCKED"

    def __init__(self, raw: Session, begin: bytes = WRITE) -> None:
        self.raw = raw
        self._held = [begin]
        self._sent = 0
        self._depth = 0
        self._ended = False
        self.topics: list[str] = []
        self.lost: ShopfloorError | None = None
        """Set when this transaction is lost through no fault of its own: run it again from the start."""

    def execute(self, sql: str, /, **params: Any) -> int:
        return self._run(sql, params).command_tuples or 0

    def one(self, sql: str, /, **params: Any) -> Row | None:
        rows = self.raw.wire.rows(self._run(sql, params))
        return rows[0] if rows else None

    def all(self, sql: str, /, **params: Any) -> list[Row]:
        return self.raw.wire.rows(self._run(sql, params))

    def savepoint(self) -> AbstractContextManager[None]:
        return _Savepoint(self)

    def hint(self, *topics: str) -> None:
        self.topics += topics

    def settle(self) -> None:
        """Refuse to go on with a transaction that is not whole."""
        self._ended = True
        if self.raw.pgconn.transaction_status == TransactionStatus.INERROR:
            raise StoreFailed("A statement failed and its error was passed over; nothing was written.")

    def commit(self) -> None:
        """Make it durable, or say that this did not happen, or that nobody knows."""
        if self.lost is not None or self._sent == 0:
            return
        # What is held are savepoints to release, which a commit does anyway.
        try:
            result = self.raw.pgconn.exec_(b"COMMIT")
        except psycopg.Error as error:
            raise CommitUnknown from error
        if self.raw.closed:
            raise CommitUnknown from pg.error_from_result(result)
        if result.status != ExecStatus.COMMAND_OK:
            self._fail(pg.error_from_result(result))

    def rollback(self) -> None:
        """Undo what is not committed, if there is any."""
        self._ended = True
        if not self.raw.closed and self.raw.pgconn.transaction_status != TransactionStatus.IDLE:
            self._tell(b"ROLLBACK")

    def undo(self, savepoint: bytes) -> None:
        self._held.clear()  # whatever it is, it came after that savepoint
        if not self.raw.closed:
            self._tell(b"ROLLBACK TO " + savepoint + b"; RELEASE " + savepoint)

    def _tell(self, command: bytes) -> None:
        try:
            done = self.raw.pgconn.exec_(command).status == ExecStatus.COMMAND_OK
        except psycopg.Error:
            done = False
        if not done:
            self.raw.close()

    def _run(self, sql: str, params: dict[str, Any]) -> PGresult:
        if self._ended:
            raise RuntimeError("this connection ended with its transaction")
        if self.lost is not None:
            raise self.lost
        query, names = numbered(sql)
        check(params)
        values = [params[name] for name in names]
        held, self._held = self._held, []
        self._sent += 1
        try:
            return self.raw.wire.run(held, query, values)
        except psycopg.Error as error:
            self._fail(error)

    def _fail(self, error: psycopg.Error) -> NoReturn:
        failure = translated(error)
        if isinstance(error, pg.FeatureNotSupported) and "cached plan" in str(error):
            self.raw.close()  # another replica has changed the schema under a prepared statement
        if self.raw.closed:
            failure = StoreUnreachable()
        if self.raw.closed or isinstance(error, _RUN_AGAIN):
            self.lost = failure
        raise failure from error


class _Savepoint:
    __slots__ = ("_conn", "_name", "_place", "_sent", "_told")

    def __init__(self, conn: PostgresConnection) -> None:
        self._conn = conn

    def __enter__(self) -> None:
        conn = self._conn
        conn._depth += 1
        self._name = b"part%d" % conn._depth
        self._sent, self._place, self._told = conn._sent, len(conn._held), len(conn.topics)
        conn._held.append(b"SAVEPOINT " + self._name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        conn = self._conn
        conn._depth -= 1
        if kind is not None:
            del conn.topics[self._told :]
        if conn._sent == self._sent:
            del conn._held[self._place :]  # nothing was sent since: as if it had not been
        elif kind is None:
            conn._held.append(b"RELEASE " + self._name)
        else:
            conn.undo(self._name)


def translated(error: psycopg.Error) -> ShopfloorError:
    """The engine's error in the floor's words."""
    if isinstance(error, _BUSY):
        return StoreBusy()
    if isinstance(error, pg.DiskFull):
        return StoreFull()
    if isinstance(error, psycopg.OperationalError) and (error.sqlstate or "08")[:2] in ("08", "57"):
        return StoreUnreachable()
    return StoreFailed(f"The store failed: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
