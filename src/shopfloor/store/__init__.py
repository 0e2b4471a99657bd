"""The database behind one interface, with two engines: SQLite, which needs no setup, and PostgreSQL for replicas."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from shopfloor.errors import BadSettings
from shopfloor.store.migrate import load_migrations
from shopfloor.store.protocol import Callback, Connection, Engine, Row, Store, T
from shopfloor.store.sqlite import SqliteStore, sqlite_schema_version

__all__ = ["Callback", "Connection", "Engine", "Row", "Store", "T", "open_store", "parse_sqlite_url", "schema_version"]

_POSTGRES_PREFIXES = ("postgresql://", "postgres://")


def open_store(
    url: str,
    *,
    migrations: Path | None = None,
    migrate: bool = True,
    version: int | None = None,
    direct_url: str | None = None,
) -> Store:
    """Open the store at `url`. A new one gets the schema; an older one is brought up to date if `migrate` is set.

    `sqlite:///absolute/path.db`, `sqlite://` (a private file, deleted on close) or `postgresql://…`.
    `migrations` is a folder with one folder per engine; `version` is the schema to stop at. `direct_url` bypasses a
    pooler at `url`.
    """
    if url.startswith(_POSTGRES_PREFIXES):
        known = load_migrations("postgres", migrations)[:version]
        store: Store = _import_postgres().PostgresStore(url, known, migrate=migrate, direct_url=direct_url)
        return store
    return SqliteStore(parse_sqlite_url(url), load_migrations("sqlite", migrations)[:version], migrate=migrate)


def schema_version(url: str) -> int:
    """Return the number of the last migration applied to the store at `url`, or 0."""
    if url.startswith(_POSTGRES_PREFIXES):
        return int(_import_postgres().postgres_schema_version(url))
    path = parse_sqlite_url(url)
    return sqlite_schema_version(path) if path else 0


def parse_sqlite_url(url: str) -> Path | None:
    """Return the path in a SQLite URL, or None for a private file."""
    scheme, separator, path = url.partition("://")
    if scheme != "sqlite" or not separator or (path and not path.startswith("/")):
        raise BadSettings(
            f"'{scheme}://…' is not a store: use sqlite:///absolute/path.db or postgresql://user@host/database."
        )
    return Path(path) if path else None


def _import_postgres() -> ModuleType:
    try:
        from shopfloor.store import postgres  # noqa: PLC0415 - psycopg is optional
    except ModuleNotFoundError as error:
        raise BadSettings("PostgreSQL needs one more package: pip install 'shopfloor[postgres]'") from error
    return postgres
