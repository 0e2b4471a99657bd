"""The five tools of todo."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from shopfloor.domain.tasks import Task
from shopfloor.domain.text import to_one_line
from shopfloor.domain.times import format_iso_seconds
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json
from shopfloor.toolsets.todo.contract import toolset
from shopfloor.usecases import todos

COMPLETED = {"all": None, "active": False, "completed": True}
PAGE = 200
MAX_RESPONSE_BYTES = 90_000


Title = Annotated[
    str,
    Field(description="Task title (1-200 characters)", min_length=1, max_length=200),
    BeforeValidator(lambda given: to_one_line(given) if isinstance(given, str) else given),
]
Description = Annotated[str, Field(description="Task description (0-1000 characters)", max_length=1000)]
TaskId = Annotated[int, Field(description="The task's id, a positive integer, as list_tasks shows it", ge=1)]
Filter = Annotated[
    Literal["all", "active", "completed"],
    Field(description="Which tasks: 'all' (default), 'active' for what is still to do, or 'completed'"),
]
Limit = Annotated[int, Field(description=f"Maximum number of tasks (1-{PAGE}, default {PAGE})", ge=1, le=PAGE)]
Cursor = Annotated[str, Field(description="nextCursor of the previous response", pattern=r"^[1-9][0-9]{0,17}$")]


@toolset.tool("add_task")
def add_task(uow: UnitOfWork, title: Title, description: Description | None = None) -> Json:
    """Create a new task for the user."""
    task = todos.add_task(uow, title, description)
    return {"task": _select_fields(task, "id", "title", "description", "completed", "created_at")}


@toolset.tool("list_tasks", read_only=True)
def list_tasks(uow: UnitOfWork, filter: Filter = "all", limit: Limit = PAGE, cursor: Cursor | None = None) -> Json:
    """List the user's tasks, newest first. `count` is how many there are; a longer list continues at `nextCursor`."""
    page = todos.list_page(uow, COMPLETED[filter], limit, int(cursor) if cursor else None)
    shown: list[Json] = []
    size = 0
    for task in page.tasks:
        item = _select_fields(task, "id", "title", "description", "completed", "created_at")
        size += len(json.dumps(item, indent=1, ensure_ascii=False).encode())
        # At least one task is shown, or the cursor would never advance.
        if shown and size > MAX_RESPONSE_BYTES:
            break
        shown.append(item)
    answer = {"tasks": shown, "count": page.count, "filter": filter}
    if page.next is None and len(shown) == len(page.tasks):
        return answer
    return {**answer, "nextCursor": str(shown[-1]["id"])}


@toolset.tool("complete_task", idempotent=True)
def complete_task(uow: UnitOfWork, task_id: TaskId) -> Json:
    """Mark a task as complete."""
    task, changed = todos.complete_task(uow, task_id)
    answer: Json = {"task": _select_fields(task, "id", "title", "completed", "updated_at")}
    return answer if changed else {**answer, "message": "Task was already complete"}


@toolset.tool("delete_task", destructive=True)
def delete_task(uow: UnitOfWork, task_id: TaskId) -> Json:
    """Delete a task. Ask the user first when it is not clear which task is meant."""
    task = todos.delete_task(uow, task_id)
    return {"task_id": task.number, "title": task.title, "message": "Task deleted successfully"}


@toolset.tool("update_task", idempotent=True)
def update_task(
    uow: UnitOfWork, task_id: TaskId, title: Title | None = None, description: Description | None = None
) -> Json:
    """Change a task's title, its description, or both; give at least one of them."""
    given = {"title": title, "description": description}
    task = todos.update_task(uow, task_id, **{k: v for k, v in given.items() if v is not None})
    return {"task": _select_fields(task, "id", "title", "description", "completed", "updated_at")}


def _select_fields(task: Task, *fields: str) -> Json:
    whole = {
        "id": task.number,
        "title": task.title,
        "description": task.description,
        "completed": task.completed,
        "created_at": format_iso_seconds(task.created_at),
        "updated_at": format_iso_seconds(task.updated_at),
    }
    return {field: whole[field] for field in fields}
