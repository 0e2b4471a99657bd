"""The five tools of todo_direct."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from shopfloor.domain.tasks import Task
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Json
from shopfloor.toolsets.todo_direct.manners import toolset
from shopfloor.usecases import todos

COMPLETED = {"all": None, "pending": False, "completed": True}


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _positive(number: int) -> int:
    if number < 1:
        raise ValueError("must be a positive integer")
    return number


Title = Annotated[
    str,
    Field(description="The task title (1-200 characters)", min_length=1, max_length=200),
    BeforeValidator(_stripped),
]
Description = Annotated[str, Field(description="Optional task description (max 1000 characters)", max_length=1000)]
NewTitle = Annotated[
    str,
    Field(description="New task title (1-200 characters)", min_length=1, max_length=200),
    BeforeValidator(_stripped),
]
NewDescription = Annotated[str, Field(description="New task description (max 1000 characters)", max_length=1000)]
Status = Annotated[Literal["all", "pending", "completed"], Field(description="Filter tasks by status")]
Completed = Annotated[int, AfterValidator(_positive), Field(description="The ID of the task to complete")]
Deleted = Annotated[int, AfterValidator(_positive), Field(description="The ID of the task to delete")]
Updated = Annotated[int, AfterValidator(_positive), Field(description="The ID of the task to update")]


@toolset.tool("add_task")
def add_task(work: Work, title: Title, description: Description | None = None) -> Json:
    """Create a new task for the user"""
    return _said("created", todos.add(work, title, description))


@toolset.tool("list_tasks", read_only=True)
def list_tasks(work: Work, status: Status = "all") -> list[Json]:
    """Retrieve user's tasks with optional status filter"""
    return [
        {"id": task.number, "title": task.title, "description": task.description, "completed": task.completed}
        for task in todos.everything(work, COMPLETED[status])
    ]


@toolset.tool("complete_task", idempotent=True)
def complete_task(work: Work, task_id: Completed) -> Json:
    """Mark a task as completed"""
    task, _ = todos.complete(work, task_id)
    return _said("completed", task)


@toolset.tool("delete_task", destructive=True)
def delete_task(work: Work, task_id: Deleted) -> Json:
    """Permanently remove a task"""
    return _said("deleted", todos.delete(work, task_id))


@toolset.tool("update_task", idempotent=True)
def update_task(
    work: Work, task_id: Updated, title: NewTitle | None = None, description: NewDescription | None = None
) -> Json:
    """Modify a task's title or description"""
    given = {"title": title, "description": description}
    return _said("updated", todos.update(work, task_id, **{k: v for k, v in given.items() if v is not None}))


def _said(status: str, task: Task) -> Json:
    return {"task_id": task.number, "status": status, "title": task.title}
