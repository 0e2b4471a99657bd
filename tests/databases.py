"""PostgreSQL databases for tests: each as if new, few of them really new."""

from __future__ import annotations

import itertools

import psycopg
from psycopg import sql

from shopfloor.store.database import open_store
from tests.postgres import PostgresServer

_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'schema_version'"
_SEQUENCES = "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL"
_SHAPE = """
    SELECT string_agg(id, ' ' ORDER BY id) FROM (
        SELECT 'class ' || oid || relname AS id FROM pg_class WHERE relnamespace = 'public'::regnamespace
        UNION ALL SELECT 'constraint ' || oid FROM pg_constraint
        UNION ALL SELECT 'trigger ' || oid FROM pg_trigger WHERE NOT tgisinternal
        UNION ALL SELECT 'column ' || attrelid || attname FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid
            WHERE relnamespace = 'public'::regnamespace AND attnum > 0
    ) AS parts
"""


class Databases:
    """Lends databases that have the schema and nothing else, and takes them back."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._template = server.create_database()
        open_store(self._template).close()
        self._numbers = itertools.count(1)
        self._free: list[str] = []
        self._shapes: dict[str, str] = {}

    def take(self) -> str:
        """The address of a database that nobody else uses."""
        return self._free.pop() if self._free else self._copy()

    def give_back(self, url: str) -> None:
        """Empty it for the next one; one whose schema a test has changed is thrown away."""
        with psycopg.connect(url, autocommit=True) as connection:
            spoilt = _shape(connection) != self._shapes[url]
            if not spoilt:
                _empty(connection)
        if spoilt:
            self._administer(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(_name(url)))
        else:
            self._free.append(url)

    def _copy(self) -> str:
        url = self._server.url(f"copy_{next(self._numbers)}")
        self._administer(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(_name(url), _name(self._template)))
        with psycopg.connect(url) as connection:
            self._shapes[url] = _shape(connection)
        return url

    def _administer(self, statement: sql.Composed) -> None:
        with psycopg.connect(self._server.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)


def _name(url: str) -> sql.Identifier:
    return sql.Identifier(url.rpartition("/")[2])


def _shape(connection: psycopg.Connection) -> str:
    row = connection.execute(_SHAPE).fetchone()
    assert row is not None
    return str(row[0])


def _empty(connection: psycopg.Connection) -> None:
    """Without TRUNCATE, which takes ten times as long on small tables."""
    connection.execute("SET session_replication_role = replica")
    with connection.transaction():
        for (table,) in connection.execute(_TABLES).fetchall():
            connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
        for (sequence,) in connection.execute(_SEQUENCES).fetchall():
            connection.execute(sql.SQL("ALTER SEQUENCE {} RESTART").format(sql.Identifier(sequence)))
