"""Count the rows that calls read in the store, which other load on the machine does not change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from shopfloor.repositories.uow import Database
from shopfloor.store.protocol import Connection
from tests.repositories.statement_tour import MeasuredConnection

T = TypeVar("T")

ALLOWED_RATIO = 2
ALLOWED_ROWS = 1000
"""A page may be fuller, and the planner may choose another index. A scan of 20,000 rows and more is well above."""


BACKGROUND_THREADS = (
    "shopfloor-dispatcher",
    "shopfloor-housekeeper",
    "shopfloor-indexer",
    "shopfloor-launcher",
    "shopfloor-topics",
    "shopfloor-watcher",
)


class MeasuredStore:
    """A store that counts the rows that its reads and writes read.

    Deferred writes and background jobs are not counted: on a busy machine, housekeeping ran during every measurement.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.rows_read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, fn: Callable[[Connection], T]) -> T:
        result: T = self._inner.read(self._wrap(fn))
        return result

    def write(self, fn: Callable[[Connection], T]) -> T:
        result: T = self._inner.write(self._wrap(fn))
        return result

    def _wrap(self, fn: Callable[[Connection], T]) -> Callable[[Connection], T]:
        if threading.current_thread().name in BACKGROUND_THREADS:
            return fn
        return lambda connection: self._measure(fn, connection)

    def _measure(self, fn: Callable[[Any], T], connection: Connection) -> T:
        measured = MeasuredConnection(connection)
        try:
            return fn(measured)
        finally:
            self.rows_read += measured.rows_read


@contextmanager
def measure_store(database: Database) -> Iterator[MeasuredStore]:
    """Measure what the units of work of a database read."""
    plain = database.store
    measured = MeasuredStore(plain)
    database.store = measured
    try:
        yield measured
    finally:
        database.store = plain


def count_rows_read(database: Database, operation: Callable[[], object]) -> int:
    """Count the rows that an operation reads: the fewest of three times, since another call may read meanwhile."""
    operation()  # fills caches
    counts = []
    for _ in range(3):
        with measure_store(database) as store:
            operation()
        counts.append(store.rows_read)
    assert min(counts), "the operation read nothing"
    return min(counts)


def grew(few: int, many: int) -> bool:
    """Return whether a call read more rows in a large table than the depth of its index explains."""
    return many > ALLOWED_RATIO * few + ALLOWED_ROWS
