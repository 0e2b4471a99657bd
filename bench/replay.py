"""A store without a store: what each statement gave once, given again. What is left is the pipeline's own cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from shopfloor.repositories.work import Works
from shopfloor.store.database import Connection, Store

Heard = dict[tuple[str, str], Any]


@contextmanager
def replaying(works: Works, example: Callable[[], object]) -> Iterator[None]:
    """For a while the store only repeats what it answered to the statements of one example."""
    real = works.store
    heard: Heard = {}
    try:
        works.store = _Through(real, lambda conn: _Noting(conn, heard))
        example()
        real.flush()
        works.store = _Instead(real, _Repeating(heard))
        yield
    finally:
        works.store = real


class _Through:
    """The real store, with every connection wrapped."""

    def __init__(self, store: Store, wrap: Callable[[Connection], Any]) -> None:
        self._store = store
        self._wrap = wrap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, fn: Callable[[Any], Any]) -> Any:
        return self._store.write(lambda conn: fn(self._wrap(conn)))

    def read(self, fn: Callable[[Any], Any]) -> Any:
        return self._store.read(lambda conn: fn(self._wrap(conn)))

    def later(self, fn: Callable[[Any], Any]) -> None:
        self._store.later(lambda conn: fn(self._wrap(conn)))


class _Instead:
    """No store: functions run where they are called."""

    def __init__(self, store: Store, conn: Any) -> None:
        self._store = store
        self._conn = conn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, fn: Callable[[Any], Any]) -> Any:
        return fn(self._conn)

    read = write
    later = write


class _Noting:
    def __init__(self, conn: Connection, heard: Heard) -> None:
        self._conn = conn
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conn, name)

    def execute(self, sql: str, /, **params: Any) -> Any:
        return self._note("execute", sql, params)

    def one(self, sql: str, /, **params: Any) -> Any:
        return self._note("one", sql, params)

    def all(self, sql: str, /, **params: Any) -> Any:
        return self._note("all", sql, params)

    def _note(self, how: str, sql: str, params: dict[str, Any]) -> Any:
        result = getattr(self._conn, how)(sql, **params)
        self._heard[how, sql] = result
        return result


class _Repeating:
    engine = "sqlite"
    for_update = ""
    skip_locked = ""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard

    # What is not known is asked by what runs beside the calls.
    def execute(self, sql: str, /, **_: Any) -> Any:
        return self._heard.get(("execute", sql), 0)

    def one(self, sql: str, /, **_: Any) -> Any:
        return self._heard.get(("one", sql))

    def all(self, sql: str, /, **_: Any) -> Any:
        return self._heard.get(("all", sql), [])

    def savepoint(self) -> Any:
        return nullcontext()

    def hint(self, *topics: str) -> None:
        pass
