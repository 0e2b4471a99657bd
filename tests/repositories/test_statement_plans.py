"""No statement of the repositories reads a whole table that grows.

Each statement is executed on a filled database, and the rows that it reads are counted: a plan does not
show how many there are, since `SEARCH decision USING INDEX decision_workspace (workspace=?)` can be one or all.
"""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import psycopg
import pytest

from shopfloor.domain.principals import OPERATOR
from shopfloor.gateways import Gateways
from shopfloor.repositories.uow import Database, UnitOfWork
from shopfloor.repositories.workspaces import Workspaces
from shopfloor.store import open_store
from shopfloor.store.protocol import Connection, Row, Store
from tests.repositories.filled_database import START, fill_database
from tests.repositories.statement_tour import SOURCE, MeasuredConnection, Tour, list_call_sites

ROWS = 20_000
"""Rows of the largest tables: 400,000 in all."""
FEW_ROWS = 100
MANY_ROWS = 100_000
"""2 million in all."""
MAX_WASTED_ROWS = 1_000

ALLOWED = {
    "Chunks.digests": "Chooses what a narrow search by meaning compares: all texts of its scope.",
    "Decisions.search": "Examines MAX_ROWS_EXAMINED rows at most, then returns a cursor.",
    "Decisions.count_results_without_invocation": "Verifies the whole log, when a person asks for it.",
    "Index.count_by": "Counts the files of the project, for the overview of its structure.",
    "Outbox.count_backlog": "Counts up to 10,000.",
    "Outbox.give_up_orphans": "Reads the open deliveries that are a day late, once an hour.",
    "StoredEmbeddings.count": "Counts the chunks of the index, for its status.",
    "StoredEmbeddings.missing": "Compares all chunks with all embeddings, in the background and without the writer.",
}
NOT_SENT_ON = {
    "sqlite": {"_ranked_by_words", "_score_with_files", "_add_words", "read_clock"},
    "postgres": {
        "has_statistics",
        "_best_by_words",
        "_score_query",
        "_score_with_files",
        "_all_by_words",
        "replace_chunks",
        "_add_words",
    },
}
"""Functions with a statement for the other engine, or for words that are in more texts than any of this database."""


NO_GATEWAYS = cast("Gateways", None)
"""Repositories use nothing but the store."""


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database per engine; on PostgreSQL of an ordinary role, whose plans row-level security changes."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/floor.db"
    return str(request.getfixturevalue("postgres").create_database(ordinary_role=True))


class _Undo(Exception):
    pass


def fill(store: Store, rows: int) -> int:
    """Fill the store and return the time after its last row."""

    def write(connection: Connection) -> int:
        return fill_database(connection, Workspaces(connection).ensure("default", START), rows)

    return store.write(write)


def measure(store: Store, rows: int, now: int) -> MeasuredConnection:
    """Send every statement, undo its effect, and return what was measured."""
    measured: list[MeasuredConnection] = []

    def tour(connection: Connection) -> None:
        if store.engine == "postgres":
            # On tables of this size PostgreSQL may prefer to read all of one. What counts is whether an index serves.
            for option in (
                "enable_seqscan = off",
                "enable_hashjoin = off",
                "enable_mergejoin = off",
                "random_page_cost = 1",
            ):
                connection.execute(f"SET LOCAL {option}")
        measured.append(MeasuredConnection(connection))
        database = Database(store, lambda: now, NO_GATEWAYS, workspace=1, root="/project")
        Tour(rows, now).run(UnitOfWork(database, measured[-1], OPERATOR, now, 1), measured[-1])
        raise _Undo

    with pytest.raises(_Undo):
        store.write(tour)
    return measured[-1]


def find_wasteful(measured: MeasuredConnection) -> dict[str, str]:
    """Return the statements that read many rows for nothing, by the function that sends them.

    The index of words is left out: a search ranks all chunks that have one of its words, and `make bench` measures it.
    """
    return {
        statement.function: f"{statement.wasted_rows} rows: {statement.sql}\n{statement.plan}"
        for statement in measured.statements.values()
        if statement.wasted_rows > MAX_WASTED_ROWS and "chunk_words" not in statement.sql
    }


def name_functions(sites: set[tuple[str, int]]) -> set[str]:
    """Return the names of the functions that have these call sites."""
    names = set()
    for path in SOURCE.glob("*.py"):
        lines = {line for file, line in sites if file == path.name}
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and lines & set(range(node.lineno, (node.end_lineno or 0) + 1)):
                names.add(node.name)
    return names


def vacuum(url: str) -> None:
    """Do what autovacuum does in production."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def make_statistics(rows: int) -> list[Row]:
    """Return the statistics of a database with this many rows."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite://{folder}/floor.db")
        try:
            fill(store, rows)
            store.update_statistics()
            return store.read(lambda connection: connection.fetch_all("SELECT tbl, idx, stat FROM sqlite_stat1"))
        finally:
            store.close()


def replace_statistics(statistics: list[Row], connection: Connection) -> None:
    connection.execute("ANALYZE")
    connection.execute("DELETE FROM sqlite_stat1")
    for table, index, counts in statistics:
        connection.execute(
            "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (:table, :index, :counts)",
            table=table,
            index=index,
            counts=counts,
        )
    connection.execute("ANALYZE sqlite_schema")


def check(database: str, rows: int, report: Callable[[str, dict[str, str]], None]) -> None:
    store = open_store(database)
    try:
        now = fill(store, rows)
        store.fence(1)
        if store.engine == "postgres":
            vacuum(database)
        else:
            # SQLite has no statistics at first, and must not need them.
            measured = measure(store, rows, now)
            report("without statistics", find_wasteful(measured))
            # The tables grow between two updates of the statistics.
            store.write(partial(replace_statistics, make_statistics(FEW_ROWS)))
            measured = measure(store, rows, now)
            report("with statistics of a small database", find_wasteful(measured))
            store.update_statistics()
        measured = measure(store, rows, now)
        report("with statistics", find_wasteful(measured))
        assert name_functions(list_call_sites() - measured.sites) == NOT_SENT_ON[store.engine]
    finally:
        store.close()


def test_no_statement_reads_a_whole_table(database):
    def report(when: str, wasteful: dict[str, str]) -> None:
        unexpected = {name: text for name, text in wasteful.items() if name not in ALLOWED}
        assert not unexpected, f"{when}:\n" + "\n".join(f"{name}: {text}" for name, text in unexpected.items())
        assert set(wasteful) == set(ALLOWED), f"{when}: not wasteful: {set(ALLOWED) - set(wasteful)}"

    check(database, ROWS, report)


LARGE_BOARDS = {"Tasks.count": "One of these boards has 3,300 tasks, which are counted one by one."}

WITHOUT_STATISTICS = {
    "Runs.find_dirty_files": "Reads the 2,000 iterations of a run until there are statistics, as it finds them by their key.",
    "Runs.clear_dirty_files": "The same.",
}
"""Statements of SQLite only. A server makes statistics within the hour, long before a run has as many iterations."""


@pytest.mark.long
def test_no_statement_reads_a_whole_table_of_many_rows(database):
    def report(when: str, wasteful: dict[str, str]) -> None:
        allowed = {*ALLOWED, *LARGE_BOARDS, *(WITHOUT_STATISTICS if when == "without statistics" else ())}
        unexpected = {name: text for name, text in wasteful.items() if name not in allowed}
        assert not unexpected, f"{when}:\n" + "\n".join(f"{name}: {text}" for name, text in unexpected.items())

    check(database, MANY_ROWS, report)
