"""The five tools of todo."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from shopfloor.domain.tasks import Task
from shopfloor.domain.times import iso_seconds
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Json
from shopfloor.toolsets.todo.manners import toolset
from shopfloor.usecases import todos

COMPLETED = {"all": None, "active": False, "completed": True}
PAGE = 200
SIZE_LIMIT = 90_000


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


Title = Annotated[
    str, Field(description="Task title (1-200 characters)", min_length=1, max_length=200), BeforeValidator(_stripped)
]
Description = Annotated[str, Field(description="Task description (0-1000 characters)", max_length=1000)]
TaskId = Annotated[int, Field(description="The task's id, a positive integer, as list_tasks shows it", ge=1)]
Filter = Annotated[
    Literal["all", "active", "completed"],
    Field(description="Which tasks: 'all' (default), 'active' for what is still to do, or 'completed'"),
]
Limit = Annotated[int, Field(description=f"At most so many tasks (1-{PAGE}, default {PAGE})", ge=1, le=PAGE)]
Cursor = Annotated[
    str, Field(description="nextCursor of the answer before, to go on where it ended", pattern=r"^[1-9][0-9]{0,17}$")
]


@toolset.tool("add_task")
def add_task(work: Work, title: Title, description: Description | None = None) -> Json:
    """Create a new task for the user."""
    return {"task": _listed(todos.add(work, title, description))}


@toolset.tool("list_tasks", read_only=True)
def list_tasks(work: Work, filter: Filter = "all", limit: Limit = PAGE, cursor: Cursor | None = None) -> Json:
    """List the user's tasks, newest first. `count` is how many there are; a longer list goes on at `nextCursor`."""
    page = todos.page(work, COMPLETED[filter], limit, int(cursor) if cursor else None)
    shown = _within_size([_listed(task) for task in page.tasks])
    answer = {"tasks": shown, "count": page.count, "filter": filter}
    if page.next is None and len(shown) == len(page.tasks):
        return answer
    return {**answer, "nextCursor": str(shown[-1]["id"])}


@toolset.tool("complete_task", idempotent=True)
def complete_task(work: Work, task_id: TaskId) -> Json:
    """Mark a task as complete."""
    task, changed = todos.complete(work, task_id)
    answer: Json = {"task": _brief(task, "id", "title", "completed", "updated_at")}
    return answer if changed else {**answer, "message": "Task was already complete"}


@toolset.tool("delete_task", destructive=True)
def delete_task(work: Work, task_id: TaskId) -> Json:
    """Delete a task. Ask the user first when it is not clear which task is meant."""
    task = todos.delete(work, task_id)
    return {"task_id": task.number, "title": task.title, "message": "Task deleted successfully"}


@toolset.tool("update_task", idempotent=True)
def update_task(
    work: Work, task_id: TaskId, title: Title | None = None, description: Description | None = None
) -> Json:
    """Change a task's title, its description, or both; give at least one of them."""
    given = {"title": title, "description": description}
    task = todos.update(work, task_id, **{k: v for k, v in given.items() if v is not None})
    return {"task": _brief(task, "id", "title", "description", "completed", "updated_at")}


def _listed(task: Task) -> Json:
    return _brief(task, "id", "title", "description", "completed", "created_at")


def _brief(task: Task, *fields: str) -> Json:
    whole = {
        "id": task.number,
        "title": task.title,
        "description": task.description,
        "completed": task.completed,
        "created_at": iso_seconds(task.created_at),
        "updated_at": iso_seconds(task.updated_at),
    }
    return {field: whole[field] for field in fields}


def _within_size(tasks: Sequence[Json]) -> list[Json]:
    """As many of the tasks as an answer can hold, one at least."""
    size = 0
    shown: list[Json] = []
    for task in tasks:
        size += len(json.dumps(task, indent=1, ensure_ascii=False).encode())
        if shown and size > SIZE_LIMIT:
            break
        shown.append(task)
    return shown
