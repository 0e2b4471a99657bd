"""A store that replays the recorded result of each statement, so that what remains is the cost of the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from shopfloor.repositories.uow import Database
from shopfloor.store import Connection, Store

Results = dict[tuple[str, str], Any]


@contextmanager
def replay_store(database: Database, example: Callable[[], object]) -> Iterator[None]:
    """Record the results of one example call, then replay them until the context ends."""
    real = database.store
    results: Results = {}
    try:
        database.store = _RecordingStore(real, lambda conn: _RecordingConnection(conn, results))
        example()
        real.flush()
        database.store = _ReplayStore(real, _ReplayConnection(results))
        yield
    finally:
        database.store = real


class _RecordingStore:
    """The real store with every connection wrapped."""

    def __init__(self, store: Store, wrap: Callable[[Connection], Any]) -> None:
        self._store = store
        self._wrap = wrap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, fn: Callable[[Any], Any]) -> Any:
        return self._store.write(lambda conn: fn(self._wrap(conn)))

    def read(self, fn: Callable[[Any], Any]) -> Any:
        return self._store.read(lambda conn: fn(self._wrap(conn)))

    def later(self, fn: Callable[[Any], Any], is_done: Callable[[Any], bool] | None = None) -> None:
        self._store.later(lambda conn: fn(self._wrap(conn)), is_done)


class _ReplayStore:
    """A store without an engine: functions run on the calling thread."""

    def __init__(self, store: Store, conn: Any) -> None:
        self._store = store
        self._conn = conn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, fn: Callable[[Any], Any]) -> Any:
        return fn(self._conn)

    read = write

    def later(self, fn: Callable[[Any], Any], is_done: Callable[[Any], bool] | None = None) -> None:
        fn(self._conn)


class _RecordingConnection:
    def __init__(self, conn: Connection, results: Results) -> None:
        self._conn = conn
        self._results = results

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conn, name)

    def execute(self, sql: str, /, **params: Any) -> Any:
        return self._record("execute", sql, params)

    def fetch_one(self, sql: str, /, **params: Any) -> Any:
        return self._record("fetch_one", sql, params)

    def fetch_all(self, sql: str, /, **params: Any) -> Any:
        return self._record("fetch_all", sql, params)

    def _record(self, how: str, sql: str, params: dict[str, Any]) -> Any:
        result = getattr(self._conn, how)(sql, **params)
        self._results[how, sql] = result
        return result


class _ReplayConnection:
    engine = "sqlite"
    for_update = ""
    skip_locked = ""
    by_row_id = ""
    counter_slot = 0

    def __init__(self, results: Results) -> None:
        self._results = results

    # Background jobs send statements that were not recorded.
    def execute(self, sql: str, /, **_: Any) -> Any:
        return self._results.get(("execute", sql), 0)

    def send(self, sql: str, /, **_: Any) -> None:
        pass

    def fetch_one(self, sql: str, /, **_: Any) -> Any:
        return self._results.get(("fetch_one", sql))

    def fetch_all(self, sql: str, /, **_: Any) -> Any:
        return self._results.get(("fetch_all", sql), [])

    def savepoint(self) -> Any:
        return nullcontext()

    def notify_on_commit(self, *topics: str) -> None:
        pass
