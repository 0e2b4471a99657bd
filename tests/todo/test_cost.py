"""A list costs the same however many others there are."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings

TASKS = 100
FACTOR = 2.0
"""Generous: both floors are measured in turn, on a machine that others use too."""


@pytest.mark.parametrize("users", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_listing_and_adding_cost_the_same_as_with_one_user(tmp_path, users):
    with _filled(tmp_path / "one", 1) as one, _filled(tmp_path / "many", users) as many:
        for deed in (_list, _list_directly, _add, _complete):
            alone, crowded = _compared(lambda: deed(one, 1), lambda: deed(many, users))  # noqa: B023
            print(f"{deed.__name__}: {alone * 1e6:.0f} µs alone, {crowded * 1e6:.0f} µs among {users}")
            assert crowded < FACTOR * alone + 0.0005, deed.__name__


def _filled(folder: Path, users: int) -> Any:
    folder.mkdir()
    floor = Shopfloor(Settings(project=folder))

    def fill(connection: Any) -> None:
        for user in range(users):
            connection.execute(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :tasks)"
                " INSERT INTO task (workspace, kind, board, title, state, priority, created_at, updated_at)"
                " SELECT 1, 'list', :board, 'Task ' || i, CASE WHEN i % 2 THEN 'PENDING' ELSE 'COMPLETED' END, 2, 1, 1"
                " FROM n",
                tasks=TASKS,
                board=f"user-{user}",
            )

    floor.floor.works.store.write(fill)
    return floor


def _compared(one: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(80):
        for index, deed in enumerate((one, other)):
            begun = time.process_time()  # what others do on this machine does not count
            deed()
            times[index].append(time.process_time() - begun)
    return statistics.median(times[0]), statistics.median(times[1])


def _user(users: int) -> str:
    return f"user-{random.randrange(users)}"


def _list(floor: Shopfloor, users: int) -> None:
    assert floor.call("todo", "list_tasks", {"filter": "active", "limit": 20}, _user(users))["success"]


def _list_directly(floor: Shopfloor, users: int) -> None:
    assert len(floor.call("todo_direct", "list_tasks", {"user_id": _user(users)})) >= TASKS


def _add(floor: Shopfloor, users: int) -> None:
    assert floor.call("todo", "add_task", {"title": "One more"}, _user(users))["success"]


def _complete(floor: Shopfloor, users: int) -> None:
    user = random.randrange(users)
    assert floor.call("todo", "complete_task", {"task_id": user * TASKS + 1}, f"user-{user}")["success"]
