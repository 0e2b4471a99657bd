"""Tools for the tasks of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from shopfloor.domain.loops import STATUSES, spell, task_id
from shopfloor.domain.tasks import BoardKind, Task
from shopfloor.errors import InvalidInput
from shopfloor.repositories.tasks import Tasks
from shopfloor.repositories.work import Work
from shopfloor.toolsets.loop.manners import clipped, fitting, toolset
from shopfloor.usecases import loops

_WORDS = ", ".join(STATUSES)
_PAGE = 50

Content = Annotated[
    str, Field(description="What to do, small enough for one iteration (1-10000 characters)", max_length=10_000)
]
Status = Annotated[str, Field(description=f"One of {_WORDS}")]
Priority = Annotated[float, Field(description="A whole number: 0 critical, 1 high, 2 medium, 3 low, 4 backlog")]
Limit = Annotated[int, Field(description="How many at most (1-200, default 50)", ge=1, le=200)]
Cursor = Annotated[str, Field(description="Where the list before this one was cut", max_length=60)]


class GivenTask(BaseModel):
    """A task as an agent writes it down."""

    model_config = ConfigDict(extra="forbid", strict=True)

    content: Content
    status: Annotated[str | None, Field(description=f"One of {_WORDS}; remaining when left out")] = None
    priority: Annotated[float | None, Field(description="0 critical, 1 high, 2 medium (default), 3 low, 4 backlog")] = (
        None
    )


@toolset.tool("task-add")
def add(
    work: Work, tasks: Annotated[list[GivenTask], Field(description="1-100 tasks", min_length=1, max_length=100)]
) -> str:
    """Write down what is to be done: all of the given tasks are added, or none. A line 'Acceptance command: …' in a
    task proposes a command that proves it done; it counts once a person has approved it."""
    new = [loops.NewTask(task.content, task.status or "", task.priority) for task in tasks]
    added = loops.add_tasks(work, work.actor.name, new)
    return "\n".join(f"Added {_line(task)}" for task in added)


@toolset.tool("task-update", idempotent=True)
def update(
    work: Work,
    id: Annotated[str, Field(description="The task's id, like TAS-1, or the unique beginning of it", max_length=40)],
    status: Status = "",
    priority: Priority | None = None,
    depends_on: Annotated[
        str,
        Field(
            description="Ids of tasks to wait for, separated by commas; a minus removes one: TAS-1,-TAS-3",
            max_length=2000,
        ),
    ] = "",
) -> str:
    """Change a task: its status, its priority, what it waits for. What is left out or empty stays; all is changed or nothing."""
    task = loops.update_task(work, work.actor.name, id, status, priority, depends_on)
    return f"Updated {_line(task, work.tasks_of(BoardKind.LOOP, work.actor.name))}"


@toolset.tool("task-list", read_only=True)
def list_tasks(work: Work, limit: Limit = _PAGE, cursor: Cursor = "") -> str:
    """Show every task under its status, with its id, priority and dependencies."""
    board = work.tasks_of(BoardKind.LOOP, work.actor.name)
    lines, more = fitting(_grouped(board, *_position(cursor)), limit)
    if not lines:
        return "There are no more tasks." if cursor else "There are no tasks yet. Add some with task-add."
    return "\n".join(lines) + (f"\n\nThere are more: call task-list with cursor {more}" if more else "")


@toolset.tool("task-next", read_only=True)
def next_task(work: Work) -> str:
    """Show what to do next: of the tasks that wait for nothing, the most urgent one (lowest number), then the oldest."""
    found = loops.next_task(work, work.actor.name)
    busy = found.in_progress
    first = f"{task_id(busy.number)} is in progress: finish it before you begin another.\n{busy.title}" if busy else ""
    if found.task is not None:
        ready = f"{_head(found.task)}\n{found.task.title}"
        return f"{first}\n\nAfter that comes {ready}" if first else ready
    if first:
        return first
    if found.waiting:
        return (
            f"No task is ready: {found.waiting} remaining wait for others that are not completed. Complete those, or "
            "remove a dependency with task-update and a minus sign."
        )
    return "No task remains. If the work is done, call session-complete; if not, add tasks with task-add."


def _grouped(board: Tasks, status: str, after: int) -> Iterator[tuple[str, str]]:
    """Every task as a line with its cursor, status by status; the first of a status brings its heading."""
    names = list(STATUSES)
    for name in names[names.index(status) :]:
        begun = after if name == status else 0
        head = f"{name} ({board.count(state=STATUSES[name])}):\n"
        at = begun
        while page := board.page(limit=_PAGE, after=at, state=STATUSES[name]):
            for task in page:
                yield f"{head}  {_line(task, board)}", f"{name}:{task.number}"
                head = ""
            at = page[-1].number


def _position(cursor: str) -> tuple[str, int]:
    status, _, number = cursor.strip().partition(":")
    if not status:
        return next(iter(STATUSES)), 0
    if status not in STATUSES or not (number.isascii() and number.isdigit()) or len(number) > 18:
        raise InvalidInput("this is not a cursor of task-list", hint="Call task-list without a cursor")
    return status, int(number)


def _line(task: Task, board: Tasks | None = None) -> str:
    waits = [task_id(number) for number in board.blockers(task.number)] if board is not None else []
    suffix = f" (depends on {', '.join(waits)})" if waits else ""
    return f"{_head(task)} {clipped(task.title)}{suffix}"


def _head(task: Task) -> str:
    return f"{task_id(task.number)} [{spell(task.state)}, priority {task.priority}]"
