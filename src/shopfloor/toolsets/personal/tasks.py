"""The own list with what the todo contracts do not speak of: when something is due, how urgent it is, and undo."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from shopfloor.domain.tasks import PRIORITIES, Task
from shopfloor.domain.times import iso_seconds
from shopfloor.domain.todos import KEPT, due, spell_due
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Json
from shopfloor.toolsets.personal.manners import toolset
from shopfloor.usecases import todos

COMPLETED = {"all": None, "active": False, "completed": True}
PAGE = 200


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


Title = Annotated[str, Field(description="1-200 characters", min_length=1, max_length=200), BeforeValidator(_stripped)]
Description = Annotated[str, Field(description="At most 1000 characters", max_length=1000)]
TaskId = Annotated[int, Field(description="The task's id", ge=1)]
Priority = Annotated[int, Field(description="0 critical to 4 backlog", ge=PRIORITIES[0], le=PRIORITIES[-1])]
DueAt = Annotated[str, Field(description="Like 2026-03-01T09:00, with an offset or a dueZone; empty for never")]
DueZone = Annotated[str, Field(description="An IANA zone like Europe/Berlin", max_length=64)]
Filter = Annotated[Literal["all", "active", "completed"], Field(description="Which tasks")]
Limit = Annotated[int, Field(description=f"At most so many (1-{PAGE})", ge=1, le=PAGE)]
Cursor = Annotated[str, Field(description="nextCursor of the answer before", pattern=r"^[1-9][0-9]{0,17}$")]


@toolset.tool("show_list", read_only=True)
def show_list(work: Work, filter: Filter = "all", limit: Limit = PAGE, cursor: Cursor | None = None) -> Json:
    """The own list, newest first."""
    page = todos.page(work, COMPLETED[filter], limit, int(cursor) if cursor else None)
    answer = {"tasks": [_shape(task) for task in page.tasks], "count": page.count}
    return answer if page.next is None else {**answer, "nextCursor": str(page.next)}


@toolset.tool("add")
def add(
    work: Work,
    title: Title,
    description: Description | None = None,
    priority: Priority | None = None,
    due_at: DueAt | None = None,
    due_zone: DueZone | None = None,
) -> Json:
    """Put a task on the own list."""
    return {"task": _shape(todos.add(work, title, description or None, **_details(priority, due_at, due_zone)))}


@toolset.tool("change", idempotent=True)
def change(
    work: Work,
    task_id: TaskId,
    title: Title | None = None,
    description: Description | None = None,
    priority: Priority | None = None,
    due_at: DueAt | None = None,
    due_zone: DueZone | None = None,
) -> Json:
    """Change whatever is given."""
    given: Json = {} if title is None else {"title": title}
    if description is not None:
        given["description"] = description or None
    return {"task": _shape(todos.update(work, task_id, **given, **_details(priority, due_at, due_zone)))}


@toolset.tool("complete", idempotent=True)
def complete(work: Work, task_id: TaskId) -> Json:
    """Tick a task off."""
    return {"task": _shape(todos.complete(work, task_id)[0])}


@toolset.tool("reopen", idempotent=True)
def reopen(work: Work, task_id: TaskId) -> Json:
    """Take a finished task up again."""
    return {"task": _shape(todos.reopen(work, task_id)[0])}


@toolset.tool("delete", destructive=True)
def delete(work: Work, task_id: TaskId) -> Json:
    """Take a task off the list; it can be restored for 30 days."""
    return {"task": _shape(todos.delete(work, task_id))}


@toolset.tool("restore", idempotent=True)
def restore(work: Work, task_id: TaskId) -> Json:
    """Put a deleted task back."""
    return {"task": _shape(todos.restore(work, task_id))}


@toolset.tool("show_deleted", read_only=True)
def show_deleted(work: Work, limit: Limit = 50) -> Json:
    """What can still be restored, the last one first."""
    return {"tasks": [_shape(task) for task in todos.deleted(work, limit)]}


def _details(priority: int | None, due_at: str | None, due_zone: str | None) -> Json:
    details: Json = {} if priority is None else {"priority": priority}
    if due_at is None:
        return details
    at, zone = due(due_at, due_zone) if due_at.strip() else (None, None)
    return {**details, "due_at": at, "due_zone": zone}


def _shape(task: Task) -> Json:
    deleted = task.deleted_at
    return {
        "id": task.number,
        "title": task.title,
        "description": task.description,
        "completed": task.completed,
        "priority": task.priority,
        "dueAt": spell_due(task.due_at, task.due_zone),
        "dueZone": task.due_zone,
        "createdAt": iso_seconds(task.created_at),
        "updatedAt": iso_seconds(task.updated_at),
        "completedAt": None if task.completed_at is None else iso_seconds(task.completed_at),
        **({} if deleted is None else {"deletedAt": iso_seconds(deleted), "gone": iso_seconds(deleted + KEPT)}),
    }
