"""The rows that a page reads do not depend on how many there are."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pytest

from tests.rows_read import count_rows_read, grew
from tests.serving import run_in_thread
from tests.web.desk_support import Desk, serve_desk

FEW_ROWS = 1000
PAGES = [
    "/home",
    "/inbox",
    "/inbox?show=all",
    "/tasks",
    "/boards/epic/1",
    "/lists/guest",
    "/activity",
    "/activity?agent=w3",
]
NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :many)"
ROWS = (
    (
        "INSERT INTO task (workspace, kind, board, title, state, priority, created_at, updated_at)"
        f" {NUMBERS} SELECT 1, 'epic', '1', 'Task ' || i, 'PENDING', 2, i, i FROM n"
    ),
    (
        "INSERT INTO task (workspace, kind, board, title, state, priority, created_at, updated_at)"
        f" {NUMBERS} SELECT 1, 'list', CASE WHEN i <= 100 THEN 'guest' ELSE 'other' END, 'Todo ' || i, 'PENDING', 2, i, i FROM n"
    ),
    (
        "INSERT INTO mail (workspace, sender, sender_type, subject, body, importance, created_at)"
        f" {NUMBERS} SELECT 1, 'agent:builder', 'WORKER', 'Mail ' || i, 'Words', 'normal', i FROM n"
    ),
    (
        "INSERT INTO receipt (workspace, recipient, mail, wanted) SELECT 1, 'human', id, 0 FROM mail"
        " WHERE id > (SELECT coalesce(max(mail), 0) FROM receipt) LIMIT :many"
    ),
    (
        "INSERT INTO decision (workspace, reference, kind, subject, actor, toolset, tool, decision, reasoning, context,"
        f" created_at, duration) {NUMBERS} SELECT 1, i, 'result', 'agent:w' || (i % 20), 'agent:w', 'factory', 'tool', 'd',"
        " 'r', '{}', i, 1000 FROM n"
    ),
)


@pytest.fixture
def visitor(desk: Desk) -> httpx2.Client:
    """The operator, without a browser."""
    run_in_thread(lambda: desk.server.shopfloor.add_user("guest"))
    desk.ask("epic_create", title="Big")
    client = httpx2.Client(base_url=desk.url, timeout=300, follow_redirects=True)
    client.get(desk.create_link())
    return client


def _insert_rows(desk: Desk, many: int) -> None:
    for sql in ROWS:
        desk.execute(sql, many=many)


@pytest.mark.parametrize("many", [20_000, pytest.param(200_000, marks=pytest.mark.long)])
def test_pages_with_many_rows_cost_as_much_as_with_few(desk: Desk, visitor: httpx2.Client, many: int) -> None:
    def count_rows(path: str) -> int:
        return count_rows_read(desk.server.shopfloor.engine.database, lambda: visitor.get(path).raise_for_status())

    # All rows are newer than the statistics, as on the first day of a server.
    desk.server.shopfloor.engine.database.store.update_statistics()
    _insert_rows(desk, FEW_ROWS)
    few = {path: count_rows(path) for path in PAGES}
    _insert_rows(desk, many)
    costs = {path: (few[path], count_rows(path)) for path in PAGES}
    print(f"{many} rows: {costs}")
    assert {path: cost for path, cost in costs.items() if grew(*cost)} == {}


@pytest.mark.parametrize("many", [2_000, pytest.param(120_000, marks=pytest.mark.long)])
def test_the_whole_log_is_exported(desk: Desk, visitor: httpx2.Client, many: int) -> None:
    _insert_rows(desk, many)
    with visitor.stream("GET", "/activity/export?tool=tool") as export:
        numbers = [json.loads(line)["id"] for line in export.iter_lines()]
    assert len(numbers) == len(set(numbers)) == many


def test_an_export_that_ends_early_says_so_in_its_last_line(tmp_path: Path) -> None:
    with serve_desk(tmp_path) as desk, httpx2.Client(base_url=desk.url, timeout=300, follow_redirects=True) as visitor:
        run_in_thread(lambda: desk.server.shopfloor.create_agent("builder"))
        visitor.get(desk.create_link())
        _insert_rows(desk, 20_000)
        with visitor.stream("GET", "/activity/export?tool=tool") as export:
            lines = export.iter_lines()
            next(lines)
            desk.execute("UPDATE token SET revoked_at = 1 WHERE kind = 'page'")
            last = list(lines)[-1]
        assert set(json.loads(last)) == {"incomplete", "cursor"}
