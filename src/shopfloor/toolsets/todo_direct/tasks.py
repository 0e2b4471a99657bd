"""The five tools of todo_direct."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from shopfloor.domain.tasks import Task
from shopfloor.domain.text import to_one_line
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json
from shopfloor.toolsets.todo_direct.contract import toolset
from shopfloor.usecases import todos

COMPLETED = {"all": None, "pending": False, "completed": True}


def _strip_text(value: Any) -> Any:
    return to_one_line(value) if isinstance(value, str) else value


def _check_positive(number: int) -> int:
    if number < 1:
        raise ValueError("must be a positive integer")
    return number


Title = Annotated[
    str,
    Field(description="The task title (1-200 characters)", min_length=1, max_length=200),
    BeforeValidator(_strip_text),
]
Description = Annotated[str, Field(description="Optional task description (max 1000 characters)", max_length=1000)]
NewTitle = Annotated[
    str,
    Field(description="New task title (1-200 characters)", min_length=1, max_length=200),
    BeforeValidator(_strip_text),
]
NewDescription = Annotated[str, Field(description="New task description (max 1000 characters)", max_length=1000)]
Status = Annotated[Literal["all", "pending", "completed"], Field(description="Filter tasks by status")]
Completed = Annotated[int, AfterValidator(_check_positive), Field(description="The ID of the task to complete")]
Deleted = Annotated[int, AfterValidator(_check_positive), Field(description="The ID of the task to delete")]
Updated = Annotated[int, AfterValidator(_check_positive), Field(description="The ID of the task to update")]


@toolset.tool("add_task")
def add_task(uow: UnitOfWork, title: Title, description: Description | None = None) -> Json:
    """Create a new task for the user"""
    return _format_outcome("created", todos.add_task(uow, title, description))


@toolset.tool("list_tasks", read_only=True)
def list_tasks(uow: UnitOfWork, status: Status = "all") -> list[Json]:
    """Retrieve user's tasks with optional status filter"""
    return [
        {"id": task.number, "title": task.title, "description": task.description, "completed": task.completed}
        for task in todos.list_all_tasks(uow, COMPLETED[status])
    ]


@toolset.tool("complete_task", idempotent=True)
def complete_task(uow: UnitOfWork, task_id: Completed) -> Json:
    """Mark a task as completed"""
    task, _ = todos.complete_task(uow, task_id)
    return _format_outcome("completed", task)


@toolset.tool("delete_task", destructive=True)
def delete_task(uow: UnitOfWork, task_id: Deleted) -> Json:
    """Permanently remove a task"""
    return _format_outcome("deleted", todos.delete_task(uow, task_id))


@toolset.tool("update_task", idempotent=True)
def update_task(
    uow: UnitOfWork, task_id: Updated, title: NewTitle | None = None, description: NewDescription | None = None
) -> Json:
    """Modify a task's title or description"""
    given = {"title": title, "description": description}
    return _format_outcome(
        "updated", todos.update_task(uow, task_id, **{k: v for k, v in given.items() if v is not None})
    )


def _format_outcome(status: str, task: Task) -> Json:
    return {"task_id": task.number, "status": status, "title": task.title}
