"""The user's own list, with features that the todo contracts lack: due dates, priorities and undo."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from shopfloor.domain.tasks import PRIORITIES, Task
from shopfloor.domain.text import to_one_line
from shopfloor.domain.times import format_iso_seconds
from shopfloor.domain.todos import DELETED_RETENTION, format_due, parse_due
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json
from shopfloor.toolsets.personal.contract import toolset
from shopfloor.usecases import todos

COMPLETED = {"all": None, "active": False, "completed": True}
MAX_TASKS = 200


Title = Annotated[
    str,
    Field(description="1-200 characters", min_length=1, max_length=200),
    BeforeValidator(lambda given: to_one_line(given) if isinstance(given, str) else given),
]
Description = Annotated[str, Field(description="At most 1000 characters", max_length=1000)]
TaskId = Annotated[int, Field(description="The task's id", ge=1)]
Priority = Annotated[int, Field(description="0 critical to 4 backlog", ge=PRIORITIES[0], le=PRIORITIES[-1])]
DueAt = Annotated[
    str, Field(description="Such as 2026-03-01T09:00, with an offset or a dueZone; empty for no due date")
]
DueZone = Annotated[str, Field(description="An IANA time zone, such as Europe/Berlin", max_length=64)]
Filter = Annotated[Literal["all", "active", "completed"], Field(description="Which tasks")]
Limit = Annotated[int, Field(description=f"Maximum number (1-{MAX_TASKS})", ge=1, le=MAX_TASKS)]
Cursor = Annotated[str, Field(description="nextCursor of the previous response", pattern=r"^[1-9][0-9]{0,17}$")]


@toolset.tool("show_list", read_only=True)
def show_list(uow: UnitOfWork, filter: Filter = "all", limit: Limit = MAX_TASKS, cursor: Cursor | None = None) -> Json:
    """List your tasks, newest first."""
    page = todos.list_page(uow, COMPLETED[filter], limit, int(cursor) if cursor else None)
    answer = {"tasks": [_format_task(task) for task in page.tasks], "count": page.count}
    return answer if page.next is None else {**answer, "nextCursor": str(page.next)}


@toolset.tool("add")
def add_task(
    uow: UnitOfWork,
    title: Title,
    description: Description | None = None,
    priority: Priority | None = None,
    due_at: DueAt | None = None,
    due_zone: DueZone | None = None,
) -> Json:
    """Add a task to your list."""
    return {
        "task": _format_task(
            todos.add_task(uow, title, description or None, **_parse_details(priority, due_at, due_zone))
        )
    }


@toolset.tool("change", idempotent=True)
def change_task(
    uow: UnitOfWork,
    task_id: TaskId,
    title: Title | None = None,
    description: Description | None = None,
    priority: Priority | None = None,
    due_at: DueAt | None = None,
    due_zone: DueZone | None = None,
) -> Json:
    """Change a task."""
    given: Json = {} if title is None else {"title": title}
    if description is not None:
        given["description"] = description or None
    return {
        "task": _format_task(todos.update_task(uow, task_id, **given, **_parse_details(priority, due_at, due_zone)))
    }


@toolset.tool("complete", idempotent=True)
def complete_task(uow: UnitOfWork, task_id: TaskId) -> Json:
    """Complete a task."""
    return {"task": _format_task(todos.complete_task(uow, task_id)[0])}


@toolset.tool("reopen", idempotent=True)
def reopen_task(uow: UnitOfWork, task_id: TaskId) -> Json:
    """Reopen a completed task."""
    return {"task": _format_task(todos.reopen_task(uow, task_id)[0])}


@toolset.tool("delete", destructive=True)
def delete_task(uow: UnitOfWork, task_id: TaskId) -> Json:
    """Delete a task; it can be restored for 30 days."""
    return {"task": _format_task(todos.delete_task(uow, task_id))}


@toolset.tool("restore", idempotent=True)
def restore_task(uow: UnitOfWork, task_id: TaskId) -> Json:
    """Restore a deleted task."""
    return {"task": _format_task(todos.restore_task(uow, task_id))}


@toolset.tool("show_deleted", read_only=True)
def show_deleted(uow: UnitOfWork, limit: Limit = 50) -> Json:
    """List the tasks that can still be restored, most recently deleted first."""
    return {"tasks": [_format_task(task) for task in todos.list_deleted(uow, limit)]}


def _parse_details(priority: int | None, due_at: str | None, due_zone: str | None) -> Json:
    details: Json = {} if priority is None else {"priority": priority}
    if due_at is None:
        return details
    # An empty text removes the due date; an omitted argument keeps it.
    at, zone = parse_due(due_at, due_zone) if due_at.strip() else (None, None)
    return {**details, "due_at": at, "due_zone": zone}


def _format_task(task: Task) -> Json:
    deleted = task.deleted_at
    return {
        "id": task.number,
        "title": task.title,
        "description": task.description,
        "completed": task.completed,
        "priority": task.priority,
        "dueAt": format_due(task.due_at, task.due_zone),
        "dueZone": task.due_zone,
        "createdAt": format_iso_seconds(task.created_at),
        "updatedAt": format_iso_seconds(task.updated_at),
        "completedAt": None if task.completed_at is None else format_iso_seconds(task.completed_at),
        **(
            {}
            if deleted is None
            else {"deletedAt": format_iso_seconds(deleted), "gone": format_iso_seconds(deleted + DELETED_RETENTION)}
        ),
    }
