"""One PostgreSQL transaction, as the repositories see it.

BEGIN, SAVEPOINT, RELEASE and statements given to `send` are held back and sent with the next statement, in one round
trip. This way a mail takes 3 round trips instead of 12.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import psycopg
from psycopg import errors as pg
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow

from shopfloor.errors import (
    CommitOutcomeUnknown,
    ShopfloorError,
    StoreBusy,
    StoreFailed,
    StoreFull,
    StoreUnreachable,
)
from shopfloor.store.parameters import number_parameters
from shopfloor.store.postgres_wire import DONE, Command, Wire, check_result
from shopfloor.store.protocol import Engine, Row
from shopfloor.store.values import check_parameters

WRITE = b"BEGIN ISOLATION LEVEL REPEATABLE READ"
READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

ALL_WORKSPACES = -1
"""The value of shopfloor.workspace that makes the rows of all workspaces visible."""
STREAMED_ROWS = 1000
MAX_HELD = 100
COUNTER_SLOTS = 64
"""Maximum number of rows per counter. Readers add them up."""

RETRYABLE: tuple[type[psycopg.Error], ...] = (pg.SerializationFailure, pg.DeadlockDetected)
_BUSY = (*RETRYABLE, pg.LockNotAvailable, pg.QueryCanceled)


class Session(psycopg.Connection[TupleRow]):
    """A connection of the pool, with its prepared statements."""

    wire: Wire
    counter_slot: int
    transaction_id: str = ""
    workspace: int = 0
    """The connection's value of the setting shopfloor.workspace; see 0028_row_security.sql."""


class PostgresConnection:
    __slots__ = ("_depth", "_ended", "_held", "_reads_only", "_retryable", "_sent", "lost", "raw", "topics")

    engine: Engine = "postgres"
    for_update: str = "FOR UPDATE"
    skip_locked: str = "FOR UPDATE SKIP LOCKED"
    by_row_id: str = ""

    def __init__(
        self, raw: Session, held: Sequence[bytes] = (WRITE,), retryable: tuple[type[psycopg.Error], ...] = RETRYABLE
    ) -> None:
        self.raw = raw
        self._held: list[Command] = list(held)
        self._reads_only = READ in held
        self._retryable = retryable
        self._sent = 0
        self._depth = 0
        self._ended = False
        self.topics: list[str] = []
        self.lost: ShopfloorError | None = None
        """Set when this transaction was aborted through no fault of its own: run it again from the start."""

    @property
    def counter_slot(self) -> int:
        return self.raw.counter_slot

    def load_transaction_id(self) -> str:
        """Return the id of the transaction. Each write of a batch that needs it must ask before its first statement."""
        # In a batch the first write begins the transaction. The others find the id without a round trip.
        if self.raw.pgconn.transaction_status == TransactionStatus.IDLE:
            row = self.fetch_one("SELECT CAST(pg_current_xact_id() AS TEXT)")
            assert row is not None
            (self.raw.transaction_id,) = row
        return self.raw.transaction_id

    @property
    def is_unused(self) -> bool:
        """True while nothing was sent."""
        return self._sent == 0

    def execute(self, sql: str, /, **params: Any) -> int:
        return self._run(sql, params).command_tuples or 0

    def send(self, sql: str, /, **params: Any) -> None:
        self._held.append(self._to_statement(sql, params))
        if len(self._held) >= MAX_HELD:
            self.flush()

    def fetch_one(self, sql: str, /, **params: Any) -> Row | None:
        rows = self.raw.wire.rows(self._run(sql, params))
        return rows[0] if rows else None

    def fetch_all(self, sql: str, /, **params: Any) -> list[Row]:
        return self.raw.wire.rows(self._run(sql, params))

    def stream(self, sql: str, /, **params: Any) -> Iterator[Row]:
        self._run(f"DECLARE streamed NO SCROLL CURSOR FOR {sql}", params)
        while rows := self.fetch_all(f"FETCH {STREAMED_ROWS} FROM streamed"):
            yield from rows
        self.execute("CLOSE streamed")

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self._depth += 1
        name = b"part%d" % self._depth
        sent, place, topic_count = self._sent, len(self._held), len(self.topics)
        self._held.append(b"SAVEPOINT " + name)
        try:
            yield
        except BaseException:
            del self.topics[topic_count:]
            if self._sent == sent:
                del self._held[place:]
            else:
                self.roll_back_to(name)
            raise
        else:
            # Nothing was sent since, so the savepoint never has to exist.
            if self._sent == sent:
                del self._held[place]
            else:
                self._held.append(b"RELEASE " + name)
        finally:
            self._depth -= 1

    def see_all_workspaces(self) -> None:
        self.execute("SELECT set_config('shopfloor.workspace', :all, true)", all=str(ALL_WORKSPACES))

    def notify_on_commit(self, *topics: str) -> None:
        self.topics += topics

    def check_intact(self) -> None:
        """Raise if a statement failed and its error was swallowed: the transaction must not be committed."""
        self._ended = True
        if self.raw.pgconn.transaction_status == TransactionStatus.INERROR:
            raise StoreFailed("A statement failed and its error was passed over; nothing was written.")

    def flush(self) -> None:
        """Send the statements that are held back."""
        if self._holds_statements():
            self._sent += 1
            held, self._held = self._held, []
            try:
                for result in self.raw.wire.send_all(held):
                    check_result(result)
            except psycopg.Error as error:
                self._fail(error)

    def commit(self) -> None:
        """Commit, or raise: CommitOutcomeUnknown when the connection was lost before the answer."""
        holds_statements = self._holds_statements()
        if self.lost is not None or (self.is_unused and not holds_statements):
            return
        # Without statements, only RELEASE can be held back, and COMMIT implies it.
        self._commit([*self._held, b"COMMIT"] if holds_statements else [b"COMMIT"])

    def commit_batch(self) -> None:
        """Commit what earlier connections of this session have done in savepoints."""
        if self.raw.pgconn.transaction_status != TransactionStatus.IDLE:
            self._commit([b"COMMIT"])

    def _commit(self, commands: Sequence[Command]) -> None:
        try:
            results = self.raw.wire.send_all(commands)
        except psycopg.Error as error:
            raise CommitOutcomeUnknown from error
        failed = next((pg.error_from_result(result) for result in results if result.status not in DONE), None)
        if self.raw.closed:
            raise CommitOutcomeUnknown from failed
        if failed is not None:
            self._fail(failed)

    def rollback(self) -> None:
        """Roll back what is not committed."""
        self._ended = True
        if not self.raw.closed and self.raw.pgconn.transaction_status != TransactionStatus.IDLE:
            self._send_or_close(b"ROLLBACK")

    def roll_back_to(self, savepoint: bytes) -> None:
        # Everything held back came after that savepoint.
        self._held.clear()
        if not self.raw.closed:
            self._send_or_close(b"ROLLBACK TO " + savepoint + b"; RELEASE " + savepoint)

    def _send_or_close(self, command: bytes) -> None:
        try:
            done = self.raw.pgconn.exec_(command).status == ExecStatus.COMMAND_OK
        except psycopg.Error:
            done = False
        if not done:
            self.raw.close()

    def _run(self, sql: str, params: dict[str, Any]) -> PGresult:
        query, values = self._to_statement(sql, params)
        held, self._held = self._held, []
        self._sent += 1
        try:
            return self.raw.wire.run(held, query, values)
        except psycopg.Error as error:
            self._fail(error)

    def _to_statement(self, sql: str, params: dict[str, Any]) -> tuple[str, list[Any]]:
        if self._ended:
            raise RuntimeError("this connection ended with its transaction")
        if self.lost is not None:
            raise self.lost
        query, names = number_parameters(sql)
        check_parameters(params)
        return query, [params[name] for name in names]

    def _holds_statements(self) -> bool:
        return any(not isinstance(command, bytes) for command in self._held)

    def _fail(self, error: psycopg.Error) -> NoReturn:
        failure = translate_error(error)
        # Another replica changed the schema under a prepared statement. A new connection prepares it again.
        if isinstance(error, pg.FeatureNotSupported) and "cached plan" in str(error):
            self.raw.close()
        # A demoted primary, or a standby: a new connection may reach the server that took over. In a read it is a bug
        # of ours.
        if isinstance(error, pg.ReadOnlySqlTransaction) and not self._reads_only:
            self.raw.close()
        if self.raw.closed:
            failure = StoreUnreachable()
        if self.raw.closed or isinstance(error, self._retryable):
            self.lost = failure
        raise failure from error


def translate_error(error: psycopg.Error) -> ShopfloorError:
    """Translate a PostgreSQL error into one of ours."""
    if isinstance(error, _BUSY):
        return StoreBusy()
    if isinstance(error, pg.DiskFull):
        return StoreFull()
    if isinstance(error, psycopg.OperationalError) and (error.sqlstate or "08")[:2] in ("08", "57"):
        return StoreUnreachable()
    return StoreFailed(f"The store failed: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
