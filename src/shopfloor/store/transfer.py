"""Export every row of a store as JSON lines, and import them into an empty store of either engine.

The first line names the schema. Each table is a line with its columns, followed by one line per row. The last line has
the counts, the last ids and a digest of all lines before it, so that a truncated or changed file is rejected.

Tables and rows are in an order that does not depend on the engine: exporting an import yields the same file.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from shopfloor.errors import InvalidInput, SchemaTooNew, ShopfloorError
from shopfloor.store.migrate import Migration
from shopfloor.store.protocol import Connection, Engine, Store

FORMAT_VERSION = 1
DERIVED_TABLES = frozenset({"chunk", "chunk_symbol", "chunk_words", "index_mark", "indexed_file"})
"""The index, which is rebuilt from files and documents. Each engine stores its words differently."""
MAX_PARAMETERS = 400
"""Parameters of one INSERT. SQLite searches named ones linearly: with 4,000 it took 8 times as long."""
GZIP_MAGIC = b"\x1f\x8b"
_UNREADABLE = (OSError, EOFError, zlib.error)
"""Errors of reading a file that is damaged or cut off."""

TABLES_SQL: dict[Engine, str] = {
    "sqlite": """
        SELECT name FROM pragma_table_list
        WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
        """,
    "postgres": "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()",
}
# Name, type, position in the primary key (0: not part of it), and whether the store generates its values.
COLUMNS_SQL: dict[Engine, str] = {
    "sqlite": """
        SELECT name, type, pk, type = 'INTEGER' AND pk = 1 AND EXISTS (
            SELECT 1 FROM sqlite_schema WHERE name = :table AND sql LIKE '%AUTOINCREMENT%'
        )
        FROM pragma_table_info(:table)
        """,
    "postgres": """
        SELECT attname::text, upper(format_type(atttypid, NULL)), coalesce(array_position(indkey::int2[], attnum), -1) + 1,
            CASE WHEN attidentity = '' THEN 0 ELSE 1 END
        FROM pg_attribute
        LEFT JOIN pg_index ON indrelid = attrelid AND indisprimary
        WHERE attrelid = to_regclass(:table) AND attnum > 0 AND NOT attisdropped
        """,
}
# Mark every document to be indexed again. Each statement comes from the migration that introduced index_mark.
MARK_DOCUMENTS_SQL = (
    """
    INSERT INTO index_mark (workspace, source, ref)
    SELECT workspace, 'discovery', CAST(id AS TEXT) FROM discovery
    """,
    """
    INSERT INTO index_mark (workspace, source, ref)
    SELECT workspace, 'decision', CAST(id AS TEXT) FROM decision WHERE kind = 'manual'
    """,
    """
    INSERT INTO index_mark (workspace, source, ref)
    SELECT workspace, 'task', CAST(number AS TEXT) FROM task WHERE kind <> 'list'
    """,
    """
    INSERT INTO index_mark (workspace, source, ref)
    SELECT comment.workspace, 'comment', CAST(comment.id AS TEXT)
    FROM comment JOIN task ON task.workspace = comment.workspace AND task.number = comment.task
    WHERE task.kind <> 'list'
    """,
    """
    INSERT INTO index_mark (workspace, source, ref)
    SELECT workspace, 'session', 'NOT-' || CAST(number AS TEXT) FROM run_note
    """,
    """
    INSERT INTO index_mark (workspace, source, ref)
    SELECT workspace, 'session', run || '/' || CAST(number AS TEXT) FROM run_iteration WHERE summary IS NOT NULL
    """,
    """
    INSERT INTO index_mark (workspace, source, ref)
    SELECT workspace, 'mail', CAST(id AS TEXT) FROM mail
    """,
)


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    key_position: int
    is_counted: bool


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of an export."""

    schema: int
    migrations: tuple[str, ...]

    def check(self, known: Sequence[Migration]) -> None:
        """Raise unless this version of Shopfloor knows the schema."""
        if self.schema > len(known):
            raise SchemaTooNew(found=self.schema, known=len(known))
        if self.migrations != tuple(migration.name for migration in known[: self.schema]):
            raise InvalidInput("The export was made by another build: its schema has the same number, but other steps.")


def export_rows(connection: Connection) -> Iterator[str]:
    """Yield the lines of an export of everything that the connection sees."""
    rows = connection.fetch_all("SELECT name FROM schema_version ORDER BY number")
    digest = hashlib.sha256()

    def encode(value: Any) -> str:
        line = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_encode_bytes) + "\n"
        digest.update(line.encode())
        return line

    header = {
        "shopfloor": "export",
        "format": FORMAT_VERSION,
        "schema": len(rows),
        "migrations": [name for (name,) in rows],
    }
    yield encode(header)
    counts: dict[str, int] = {}
    sequences: dict[str, int] = {}
    for table, columns in list_tables(connection).items():
        names = [column.name for column in columns]
        yield encode({"table": table, "columns": names})
        counts[table] = 0
        for row in connection.stream(f"SELECT {_join(names)} FROM {table} ORDER BY {_order(connection, columns)}"):
            yield encode(row)
            counts[table] += 1
        counted = next((column.name for column in columns if column.is_counted), None)
        if counted is not None and (last := _read_last_id(connection, table, counted)) is not None:
            sequences[table] = last
    yield encode({"counts": counts, "lastIds": sequences})
    yield json.dumps({"sha256": digest.hexdigest()}) + "\n"


def list_tables(connection: Connection) -> dict[str, list[Column]]:
    """Return the tables with their columns in export order: workspaces first, which others refer to."""
    names = {name for (name,) in connection.fetch_all(TABLES_SQL[connection.engine])}
    ordered = ["workspace", *sorted(names - DERIVED_TABLES - {"workspace", "schema_version"})]
    return {
        table: sorted(
            (
                Column(name, type, int(position), bool(is_counted))
                for name, type, position, is_counted in connection.fetch_all(
                    COLUMNS_SQL[connection.engine], table=table
                )
            ),
            key=lambda column: column.name,
        )
        for table in ordered
    }


def write_export(store: Store, path: Path, *, compressed: bool) -> dict[str, int]:
    """Write everything in one snapshot of the store to a file, and return the number of rows per table."""

    def write(connection: Connection) -> dict[str, int]:
        connection.see_all_workspaces()
        last: list[str] = []
        # Opened inside the read: a read that lost its connection runs again, and rewrites the file from its start.
        with gzip.open(path, "wb") if compressed else path.open("wb") as file:
            for line in export_rows(connection):
                file.write(line.encode())
                last = [*last[-1:], line]
        counts: dict[str, int] = json.loads(last[0])["counts"]
        return counts

    return store.read(write)


def read_header(path: Path) -> Header:
    """Read the first line of an export."""
    with open_export(path) as file:
        try:
            line = file.readline(1_000_000)
        except _UNREADABLE:
            line = b""
        return _parse_header(path, line)


def open_export(path: Path) -> IO[bytes]:
    """Open an export for reading, compressed or not."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    if file.peek(2)[:2] != GZIP_MAGIC:
        return file
    return gzip.open(file)  # type: ignore[return-value]


def check_export(path: Path) -> dict[str, int]:
    """Read a whole export, raise unless it is complete and unchanged, and return the number of rows per table."""
    read_header(path)
    with open_export(path) as file:
        return {table: sum(1 for _ in rows) for table, _, rows in _ExportFile(path, file).read_tables()}


def import_rows(connection: Connection, path: Path) -> dict[str, int]:
    """Insert the rows of an export into empty tables, and return the number of rows per table.

    The caller commits, so that a file damaged at its end leaves nothing behind.
    """
    known = list_tables(connection)
    for table in known:
        if connection.fetch_one(f"SELECT 1 FROM {table} LIMIT 1") is not None:
            raise InvalidInput("The database already has rows. Import into an empty one.")
    counts: dict[str, int] = {}
    with open_export(path) as file:
        export = _ExportFile(path, file)
        for table, columns, rows in export.read_tables():
            if table not in known or columns != [column.name for column in known[table]]:
                raise InvalidInput(f"{path} has a table '{table}' that this schema does not have.")
            counts[table] = 0
            while batch := list(islice(rows, MAX_PARAMETERS // len(columns))):
                _insert(connection, table, columns, batch)
                counts[table] += len(batch)
    for table, last in export.last_ids.items():
        counted = next((column.name for column in known.get(table, []) if column.is_counted), None)
        if counted is None:
            raise InvalidInput(f"{path} has a last id of '{table}', which this schema does not have.")
        _set_last_id(connection, table, counted, last)
    if connection.fetch_one("SELECT 1 FROM schema_version WHERE name = 'search'") is not None:
        for statement in MARK_DOCUMENTS_SQL:
            connection.execute(statement)
    return counts


class _ExportFile:
    """An export that is read once, from its first line to its last."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.last_ids: Any = {}
        self._path = path
        self._file = file
        self._digest = hashlib.sha256()
        self._number = 0
        self._line: Any = None
        self._counts: dict[str, int] = {}

    def read_tables(self) -> Iterator[tuple[str, list[str], Iterator[list[Any]]]]:
        """Yield each table with its columns and rows; raise at the end if any are missing."""
        self._read_line()
        self._read_line()
        while isinstance(self._line, dict) and "table" in self._line:
            table, columns = self._line["table"], self._line.get("columns")
            if not isinstance(table, str) or not isinstance(columns, list):
                raise self._fail("a table has no name or no columns")
            rows = self._read_rows(table, len(columns))
            yield table, columns, rows
            # Rows that the caller did not read are part of the digest, too.
            for _ in rows:
                pass
        if not isinstance(self._line, dict) or self._line.get("counts") != self._counts:
            raise self._fail("the number of rows is not the one at its end")
        self.last_ids = self._line.get("lastIds")
        if not isinstance(self.last_ids, dict) or any(type(last) is not int for last in self.last_ids.values()):
            raise self._fail("it has no last ids")
        expected = {"sha256": self._digest.hexdigest()}
        self._read_line()
        if self._line != expected:
            raise self._fail("its digest does not match")
        # Reading to the end also compares the checksum of a compressed file.
        if self._read_bytes():
            raise self._fail("something follows its end")

    def _read_rows(self, table: str, width: int) -> Iterator[list[Any]]:
        self._counts[table] = 0
        self._read_line()
        while isinstance(self._line, list):
            if len(self._line) != width:
                raise self._fail(f"a row of {table} has {len(self._line)} values instead of {width}")
            self._counts[table] += 1
            try:
                row = [_decode_bytes(value) for value in self._line]
            except (KeyError, TypeError, ValueError):
                raise self._fail(f"a value of {table} is not base64") from None
            yield row
            self._read_line()

    def _read_bytes(self) -> bytes:
        self._number += 1
        try:
            return self._file.readline()
        except _UNREADABLE as error:
            raise self._fail("it is cut off or damaged") from error

    def _read_line(self) -> None:
        line = self._read_bytes()
        self._digest.update(line)
        try:
            self._line = json.loads(line)
        except (ValueError, RecursionError):
            raise self._fail("invalid JSON" if line.endswith(b"\n") else "it is cut off") from None

    def _fail(self, reason: str) -> InvalidInput:
        return InvalidInput(f"{self._path} is not a complete export: {reason} (line {self._number}).")


def _parse_header(path: Path, line: bytes) -> Header:
    try:
        value = json.loads(line)
        if value["shopfloor"] != "export" or value["format"] != FORMAT_VERSION:
            raise ValueError(value["format"])
        return Header(int(value["schema"]), tuple(value["migrations"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise InvalidInput(f"{path} is not a Shopfloor export in format {FORMAT_VERSION}.") from None


def _insert(connection: Connection, table: str, columns: list[str], batch: list[list[Any]]) -> None:
    places = ", ".join(
        f"({', '.join(f':v{row}_{column}' for column in range(len(columns)))})" for row in range(len(batch))
    )
    values = {f"v{row}_{column}": value for row, cells in enumerate(batch) for column, value in enumerate(cells)}
    try:
        connection.execute(f"INSERT INTO {table} ({_join(columns)}) VALUES {places}", **values)
    except (ShopfloorError, TypeError) as error:
        raise InvalidInput(f"A row of the table '{table}' cannot be stored: {error}") from error


def _order(connection: Connection, columns: list[Column]) -> str:
    """Return the columns to sort by: the workspace, then the rest of the primary key, texts by their bytes."""
    keys = sorted((column for column in columns if column.key_position), key=lambda column: column.key_position)
    scope = [column for column in columns if column.name == "workspace"]
    by_bytes = ' COLLATE "C"' if connection.engine == "postgres" else ""
    return ", ".join(
        f'"{column.name}"{by_bytes if column.type == "TEXT" else ""}'
        for column in [*scope, *(key for key in keys if key.name != "workspace")]
    )


def _read_last_id(connection: Connection, table: str, column: str) -> int | None:
    if connection.engine == "sqlite":
        row = connection.fetch_one("SELECT seq FROM sqlite_sequence WHERE name = :table", table=table)
    else:
        row = connection.fetch_one(
            """
            SELECT last_value FROM pg_sequences
            WHERE format('%I.%I', schemaname, sequencename) = pg_get_serial_sequence(:table, :column)
            """,
            table=table,
            column=column,
        )
    return None if row is None or row[0] is None else int(row[0])


def _set_last_id(connection: Connection, table: str, column: str, last: int) -> None:
    if connection.engine == "postgres":
        connection.execute(
            "SELECT setval(pg_get_serial_sequence(:table, :column), :last)", table=table, column=column, last=last
        )
    elif not connection.execute("UPDATE sqlite_sequence SET seq = :last WHERE name = :table", table=table, last=last):
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (:table, :last)", table=table, last=last)


def _join(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _encode_bytes(value: Any) -> dict[str, str]:
    return {"base64": base64.b64encode(bytes(value)).decode()}


def _decode_bytes(value: Any) -> Any:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value
