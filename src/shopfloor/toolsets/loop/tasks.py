"""Tools for the tasks of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from shopfloor.domain.runs import STATUSES, format_status, format_task_id
from shopfloor.domain.tasks import BoardKind, Task
from shopfloor.errors import InvalidInput
from shopfloor.repositories.tasks import Tasks
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolsets.loop.contract import clip_line, fit_lines, toolset
from shopfloor.usecases import run_tasks

_PAGE = 50

Content = Annotated[
    str, Field(description="What to do, small enough for one iteration (1-10000 characters)", max_length=10_000)
]
Status = Annotated[str, WithJsonSchema({"type": "string", "enum": list(STATUSES), "description": "Status of the task"})]
Priority = Annotated[float, Field(description="A whole number: 0 critical, 1 high, 2 medium, 3 low, 4 backlog")]
Limit = Annotated[int, Field(description="Maximum number of entries (1-200, default 50)", ge=1, le=200)]
Cursor = Annotated[str, Field(description="The cursor that the previous list ended with", max_length=60)]


class GivenTask(BaseModel):
    """A task to add."""

    model_config = ConfigDict(extra="forbid", strict=True)

    content: Content
    status: Annotated[Status | None, Field(description="Default remaining")] = None
    priority: Annotated[float | None, Field(description="0 critical, 1 high, 2 medium (default), 3 low, 4 backlog")] = (
        None
    )


@toolset.tool("task-add")
def add(
    uow: UnitOfWork, tasks: Annotated[list[GivenTask], Field(description="1-100 tasks", min_length=1, max_length=100)]
) -> str:
    """Add tasks. All given tasks are added, or none. A line 'Acceptance command: …' in a task proposes a command that
    proves it done. It counts once a person has approved it."""
    new = [run_tasks.NewTask(task.content, task.status or "", task.priority) for task in tasks]
    added = run_tasks.add_tasks(uow, uow.actor.name, new)
    return "\n".join(f"Added {_format_task(task)}" for task in added)


@toolset.tool("task-update", idempotent=True)
def update(
    uow: UnitOfWork,
    id: Annotated[str, Field(description="The task's id, such as TAS-1, or a unique prefix of it", max_length=40)],
    status: Status | None = None,
    priority: Priority | None = None,
    depends_on: Annotated[
        str,
        Field(
            description="Ids of tasks to wait for, separated by commas; a minus removes one: TAS-1,-TAS-3",
            max_length=2000,
        ),
    ] = "",
) -> str:
    """Change the status, priority or dependencies of a task. Omitted or empty arguments change nothing. An update is atomic."""
    task = run_tasks.update_task(uow, uow.actor.name, id, status or "", priority, depends_on)
    return f"Updated {_format_task(task, uow.tasks_of(BoardKind.LOOP, uow.actor.name))}"


@toolset.tool("task-list", read_only=True)
def list_tasks(uow: UnitOfWork, limit: Limit = _PAGE, cursor: Cursor = "") -> str:
    """Show every task under its status, with its id, priority and dependencies."""
    board = uow.tasks_of(BoardKind.LOOP, uow.actor.name)
    status, _, number = cursor.strip().partition(":") if cursor.strip() else (next(iter(STATUSES)), ":", "0")
    if status not in STATUSES or not (number.isascii() and number.isdigit()) or len(number) > 18:
        raise InvalidInput("this is not a cursor of task-list", hint="Call task-list without a cursor")
    lines, more = fit_lines(_group_by_status(board, status, int(number)), limit)
    if not lines:
        return "There are no more tasks." if cursor else "There are no tasks yet. Add some with task-add."
    return "\n".join(lines) + (f"\n\nThere are more: call task-list with cursor {more}" if more else "")


@toolset.tool("task-next", read_only=True)
def next_task(uow: UnitOfWork) -> str:
    """Show what to do next: the most urgent task (lowest priority number) that is not blocked, then the oldest."""
    found = run_tasks.find_next_task(uow, uow.actor.name)
    busy = found.in_progress
    first = (
        f"{format_task_id(busy.number)} is in progress: finish it before you begin another.\n{busy.title}"
        if busy
        else ""
    )
    if found.task is not None:
        ready = f"{_format_head(found.task)}\n{found.task.title}"
        return f"{first}\n\nAfter that comes {ready}" if first else ready
    if first:
        return first
    if found.waiting:
        return (
            f"No task is ready: {found.waiting} remaining wait for others that are not completed. Complete those, or "
            "remove a dependency with task-update and a minus sign."
        )
    return "No task remains. If the work is done, call session-complete; if not, add tasks with task-add."


def _group_by_status(board: Tasks, status: str, after: int) -> Iterator[tuple[str, str]]:
    """Yield every task as a line with its cursor, grouped by status. The first line of a status has the heading."""
    names = list(STATUSES)
    for name in names[names.index(status) :]:
        begun = after if name == status else 0
        head = f"{name} ({board.count(state=STATUSES[name])}):\n"
        at = begun
        while page := board.list_page(limit=_PAGE, after=at, state=STATUSES[name]):
            for task in page:
                yield f"{head}  {_format_task(task, board)}", f"{name}:{task.number}"
                head = ""
            at = page[-1].number


def _format_task(task: Task, board: Tasks | None = None) -> str:
    waits = [format_task_id(number) for number in board.list_blockers(task.number)] if board is not None else []
    suffix = f" (depends on {', '.join(waits)})" if waits else ""
    return f"{_format_head(task)} {clip_line(task.title)}{suffix}"


def _format_head(task: Task) -> str:
    return f"{format_task_id(task.number)} [{format_status(task.state)}, priority {task.priority}]"
