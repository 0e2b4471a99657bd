"""The door to the store: what it promises, and how to open it."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from shopfloor.errors import BadSettings
from shopfloor.store.interface import Callback, Connection, Engine, Row, Store, T
from shopfloor.store.migrate import load
from shopfloor.store.sqlite import SqliteStore, sqlite_schema_version

__all__ = ["Callback", "Connection", "Engine", "Row", "Store", "T", "open_store", "schema_version"]

_POSTGRES = ("postgresql://", "postgres://")


def open_store(url: str, *, migrations: Path | None = None) -> Store:
    """The store at `url`, its schema brought up to date.

    `sqlite:///absolute/path.db`, `sqlite://` (private, gone when closed) or `postgresql://…`.
    `migrations` is a folder that holds one folder per engine.
    """
    if url.startswith(_POSTGRES):
        store: Store = _postgres().PostgresStore(url, load("postgres", migrations))
        return store
    return SqliteStore(_path(url), load("sqlite", migrations))


def schema_version(url: str) -> int:
    """The number of the last migration applied to the store at `url`; 0 when there is none."""
    if url.startswith(_POSTGRES):
        return int(_postgres().postgres_schema_version(url))
    path = _path(url)
    return sqlite_schema_version(path) if path else 0


def _path(url: str) -> Path | None:
    scheme, mark, path = url.partition("://")
    if scheme != "sqlite" or not mark or (path and not path.startswith("/")):
        raise BadSettings(
            f"'{scheme}://…' is not a store: use sqlite:///absolute/path.db or postgresql://user@host/database."
        )
    return Path(path) if path else None


def _postgres() -> ModuleType:
    try:
        from shopfloor.store import postgres  # noqa: PLC0415 - psycopg is optional
    except ModuleNotFoundError as error:
        raise BadSettings("PostgreSQL needs one more package: pip install 'shopfloor[postgres]'") from error
    return postgres
