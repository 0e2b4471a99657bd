"""Row-level security on PostgreSQL: a statement that forgets its workspace sees and changes no rows of another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from shopfloor.errors import StoreFailed
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.store import Connection, Store
from shopfloor.store.backups import create_backup
from tests.pgbouncer import PgBouncer
from tests.postgres import PostgresServer

WORKSPACES = ("red", "blue")


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """A database of an ordinary role, which owns its tables as the role of a server does."""
    return postgres.create_database(ordinary_role=True)


@pytest.fixture(params=["direct", "pooled"])
def floors(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> Iterator[list[Shopfloor]]:
    """Servers of two workspaces of one database, each with a task of its own."""
    pooler = PgBouncer(url) if request.param == "pooled" else None
    address = {"database": url} if pooler is None else {"database": pooler.url, "database_direct": url}
    opened = []
    for name in WORKSPACES:
        (tmp_path / name).mkdir()
        floor = Shopfloor(Settings(project=tmp_path / name, workspace=name, embeddings="off", **address), kind="cli")
        assert floor.call("factory", "mcp__task__create", {"title": f"the secret of {name}"})["success"]
        opened.append(floor)
    yield opened
    for floor in opened:
        floor.close()
    if pooler is not None:
        pooler.stop()


def get_store(floor: Shopfloor) -> Store:
    return floor.engine.database.store


class ForgetfulTasks:
    """A repository whose statements name no workspace."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list_titles(self) -> list[str]:
        return [title for (title,) in self._connection.fetch_all("SELECT title FROM task ORDER BY title")]

    def rename_all(self, title: str) -> int:
        return self._connection.execute("UPDATE task SET title = :title", title=title)

    def delete_all(self) -> int:
        return self._connection.execute("DELETE FROM inbox") + self._connection.execute("DELETE FROM agent")

    def move_all(self) -> None:
        self._connection.execute("UPDATE task SET workspace = workspace + 1 - 2 * (workspace % 2)")


def test_a_repository_that_forgets_its_workspace_stays_in_it(floors: list[Shopfloor]):
    red, blue = map(get_store, floors)
    for _ in range(3):
        assert red.read(lambda conn: ForgetfulTasks(conn).list_titles()) == ["the secret of red"]
        assert blue.read(lambda conn: ForgetfulTasks(conn).list_titles()) == ["the secret of blue"]
    assert red.write(lambda conn: ForgetfulTasks(conn).rename_all("changed")) == 1
    with pytest.raises(StoreFailed, match="row-level security"):
        red.write(lambda conn: ForgetfulTasks(conn).move_all())
    assert red.write(lambda conn: ForgetfulTasks(conn).delete_all()) >= 1
    assert blue.read(lambda conn: ForgetfulTasks(conn).list_titles()) == ["the secret of blue"]
    assert floors[1].call("factory", "mcp__task__create", {"title": "one more"})["success"]


def test_a_transaction_that_failed_leaves_the_fence_in_place(floors: list[Shopfloor]):
    red = get_store(floors[0])

    def fail(conn: Connection) -> None:
        conn.see_all_workspaces()
        assert len(ForgetfulTasks(conn).list_titles()) == 2
        raise ValueError

    for _ in range(20):
        with pytest.raises(ValueError, match=r"^$"):
            red.write(fail)
        assert red.read(lambda conn: ForgetfulTasks(conn).list_titles()) == ["the secret of red"]


def test_a_backup_has_the_rows_of_all_workspaces(floors: list[Shopfloor], tmp_path: Path):
    manifest = create_backup(get_store(floors[0]), tmp_path)
    assert (manifest["rows"]["workspace"], manifest["rows"]["task"]) == (2, 2)
    assert get_store(floors[0]).find_damage() == []


def test_every_table_with_a_workspace_has_the_fence(floors: list[Shopfloor], url: str):
    found = """
    SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity, p.polname
    FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'workspace'
    LEFT JOIN pg_policy p ON p.polrelid = c.oid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    """
    with psycopg.connect(url) as conn:
        tables = conn.execute(found).fetchall()
        # A connection that names no workspace sees nothing.
        assert conn.execute("SELECT count(*) FROM task").fetchone() == (0,)
    assert len(tables) > 30
    assert [name for name, is_forced, policy in tables if not is_forced or policy != "workspace_fence"] == []
