"""One SQLite transaction, as the repositories see it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, NoReturn

import apsw

from shopfloor.errors import ShopfloorError, StoreBusy, StoreFailed, StoreFull, StoreUnreachable
from shopfloor.store.interface import Engine, Row
from shopfloor.store.values import check

_NO_ROOM = (apsw.SQLITE_IOERR_SHMSIZE,)


class SqliteConnection:
    __slots__ = ("_alive", "_raw", "_run", "topics")

    engine: Engine = "sqlite"
    for_update: str = ""
    skip_locked: str = ""

    def __init__(self, raw: apsw.Connection, run: Callable[..., apsw.Cursor], topics: list[str]) -> None:
        self._raw = raw
        self._run = self._alive = run
        self.topics = topics

    def execute(self, sql: str, /, **params: Any) -> int:
        try:
            self._run(sql, check(params)).fetchall()
        except apsw.Error as error:
            self._fail(error)
        return self._raw.changes()

    def one(self, sql: str, /, **params: Any) -> Row | None:
        try:
            rows = self._run(sql, check(params)).fetchall()
        except apsw.Error as error:
            self._fail(error)
        return rows[0] if rows else None

    def all(self, sql: str, /, **params: Any) -> list[Row]:
        try:
            return self._run(sql, check(params)).fetchall()
        except apsw.Error as error:
            self._fail(error)

    def savepoint(self) -> AbstractContextManager[None]:
        return _Savepoint(self)

    def hint(self, *topics: str) -> None:
        self.topics += topics

    def settle(self) -> None:
        """Refuse to go on with a transaction that is not whole."""
        if self._run is not self._alive or not self._raw.in_transaction:
            raise StoreFailed("A statement failed and its error was passed over; nothing was written.")

    def end(self) -> None:
        """From here on every use is a mistake, and says so."""
        self._run = _ended

    def undo(self) -> None:
        """Go back to the innermost savepoint, if the engine still has the transaction."""
        if self._raw.in_transaction:
            self._run = self._alive
            self.execute("ROLLBACK TO part")
            self.execute("RELEASE part")

    def _fail(self, error: apsw.Error) -> NoReturn:
        # As on PostgreSQL, nothing follows a failed statement but the way back to a savepoint. It also keeps
        # statements from running outside of a transaction, when the engine has dropped it.
        self._run = _failed
        raise translated(error) from error


class _Savepoint:
    __slots__ = ("_conn", "_told")

    def __init__(self, conn: SqliteConnection) -> None:
        self._conn = conn

    def __enter__(self) -> None:
        self._conn.execute("SAVEPOINT part")
        self._told = len(self._conn.topics)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._conn.execute("RELEASE part")
        else:
            del self._conn.topics[self._told :]
            self._conn.undo()


def translated(error: apsw.Error) -> ShopfloorError:
    """The engine's error in the floor's words."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy()
        case apsw.FullError():
            return StoreFull()
        case apsw.CantOpenError():
            return StoreUnreachable()
    if getattr(error, "extendedresult", 0) in _NO_ROOM:
        return StoreFull()
    return StoreFailed(f"The store failed: {error}")


def _ended(*_: object) -> NoReturn:
    raise RuntimeError("this connection ended with its transaction")


def _failed(*_: object) -> NoReturn:
    raise StoreFailed("An earlier statement of this transaction failed.")
