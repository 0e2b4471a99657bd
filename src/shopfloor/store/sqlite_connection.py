"""One SQLite transaction, as the repositories see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import apsw

from shopfloor.errors import (
    ShopfloorError,
    StoreBusy,
    StoreDamaged,
    StoreFailed,
    StoreFull,
    StoreUnreachable,
    StoreUnwritable,
)
from shopfloor.store.protocol import Engine, Row
from shopfloor.store.values import check_parameters

_DISK_FULL_CODES = (apsw.SQLITE_IOERR_SHMSIZE,)


class SqliteConnection:
    __slots__ = ("_execute", "_raw", "_run", "topics")

    engine: Engine = "sqlite"
    for_update: str = ""
    skip_locked: str = ""
    by_row_id: str = "NOT INDEXED"
    counter_slot: int = 0

    def __init__(self, raw: apsw.Connection, run: Callable[..., apsw.Cursor], topics: list[str]) -> None:
        self._raw = raw
        self._run = self._execute = run
        self.topics = topics

    def execute(self, sql: str, /, **params: Any) -> int:
        try:
            self._run(sql, check_parameters(params)).fetchall()
        except apsw.Error as error:
            self._fail(error)
        return self._raw.changes()

    def send(self, sql: str, /, **params: Any) -> None:
        try:
            self._run(sql, check_parameters(params)).fetchall()
        except apsw.Error as error:
            self._fail(error)

    def fetch_one(self, sql: str, /, **params: Any) -> Row | None:
        try:
            rows = self._run(sql, check_parameters(params)).fetchall()
        except apsw.Error as error:
            self._fail(error)
        return rows[0] if rows else None

    def fetch_all(self, sql: str, /, **params: Any) -> list[Row]:
        try:
            return self._run(sql, check_parameters(params)).fetchall()
        except apsw.Error as error:
            self._fail(error)

    def stream(self, sql: str, /, **params: Any) -> Iterator[Row]:
        try:
            # A separate cursor: the one behind `_run` may run other statements during the stream.
            yield from self._raw.execute(sql, check_parameters(params))
        except apsw.Error as error:
            self._fail(error)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self.execute("SAVEPOINT part")
        topic_count = len(self.topics)
        try:
            yield
        except BaseException:
            del self.topics[topic_count:]
            # Some errors make the engine drop the whole transaction, and the savepoint with it.
            if self._raw.in_transaction:
                self._run = self._execute
                self.execute("ROLLBACK TO part")
                self.execute("RELEASE part")
            raise
        self.execute("RELEASE part")

    def see_all_workspaces(self) -> None:
        """Do nothing: SQLite has no fence."""

    def notify_on_commit(self, *topics: str) -> None:
        self.topics += topics

    def check_intact(self) -> None:
        """Raise if a statement failed and its error was swallowed: the transaction must not be committed."""
        # A failure or the end replaces `_run`, so that statements need not check a flag.
        if self._run is not self._execute or not self._raw.in_transaction:
            raise StoreFailed("A statement failed and its error was passed over; nothing was written.")

    def invalidate(self) -> None:
        """Make every later use raise: the transaction is over."""
        self._run = _raise_ended

    def _fail(self, error: apsw.Error) -> NoReturn:
        # As on PostgreSQL, only a rollback to a savepoint may follow a failed statement. This also keeps statements
        # from running outside a transaction after the engine has dropped it.
        self._run = _raise_failed
        raise translate_error(error) from error


def translate_error(error: apsw.Error) -> ShopfloorError:
    """Translate a SQLite error into one of ours."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy("Another process has locked the database; retry shortly.")
        case apsw.FullError():
            return StoreFull()
        case apsw.CantOpenError():
            return StoreUnreachable()
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreDamaged()
    if getattr(error, "extendedresult", 0) in _DISK_FULL_CODES:
        return StoreFull()
    # A file size limit, a quota, a disk that went read-only: deferred rows wait until it is over. ReadOnlyError is
    # different: a write in a read, which is a bug of ours.
    if isinstance(error, apsw.IOError):
        return StoreUnwritable()
    return StoreFailed(f"The store failed: {error}")


def _raise_ended(*_: object) -> NoReturn:
    raise RuntimeError("this connection ended with its transaction")


def _raise_failed(*_: object) -> NoReturn:
    raise StoreFailed("An earlier statement of this transaction failed.")
