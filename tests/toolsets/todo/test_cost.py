"""The lists of other users do not change the cost of a call."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.rows_read import count_rows_read, grew

TASKS_PER_USER = 100


@pytest.mark.parametrize("users", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_tasks_of_other_users_do_not_slow_down_listing_and_adding(tmp_path, users):
    with _open_filled(tmp_path / "one", 1) as one, _open_filled(tmp_path / "many", users) as many:
        for operation in (_list, _list_directly, _add, _complete):
            alone = count_rows_read(one.engine.database, lambda: operation(one, 1))  # noqa: B023
            crowded = count_rows_read(many.engine.database, lambda: operation(many, users))  # noqa: B023
            print(f"{operation.__name__}: {alone} rows alone, {crowded} among {users} users")
            assert not grew(alone, crowded), operation.__name__


def _open_filled(folder: Path, users: int) -> Any:
    folder.mkdir()
    shopfloor = Shopfloor(Settings(project=folder))

    def fill(connection: Any) -> None:
        for user in range(users):
            connection.execute(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :tasks)"
                " INSERT INTO task (workspace, kind, board, title, state, priority, created_at, updated_at)"
                " SELECT 1, 'list', :board, 'Task ' || i, CASE WHEN i % 2 THEN 'PENDING' ELSE 'COMPLETED' END, 2, 1, 1"
                " FROM n",
                tasks=TASKS_PER_USER,
                board=f"user-{user}",
            )

    shopfloor.engine.database.store.write(fill)
    return shopfloor


def _pick_user(users: int) -> str:
    return f"user-{random.randrange(users)}"


def _list(shopfloor: Shopfloor, users: int) -> None:
    assert shopfloor.call("todo", "list_tasks", {"filter": "active", "limit": 20}, _pick_user(users))["success"]


def _list_directly(shopfloor: Shopfloor, users: int) -> None:
    assert len(shopfloor.call("todo_direct", "list_tasks", {"user_id": _pick_user(users)})) >= TASKS_PER_USER


def _add(shopfloor: Shopfloor, users: int) -> None:
    assert shopfloor.call("todo", "add_task", {"title": "One more"}, _pick_user(users))["success"]


def _complete(shopfloor: Shopfloor, users: int) -> None:
    user = random.randrange(users)
    assert shopfloor.call("todo", "complete_task", {"task_id": user * TASKS_PER_USER + 1}, f"user-{user}")["success"]
