"""Operations on every board: create, edit, move, and dependencies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from shopfloor.domain.events import TaskChanged
from shopfloor.domain.mail import to_participant
from shopfloor.domain.principals import Kind
from shopfloor.domain.tasks import BoardKind, State, Task, check_move
from shopfloor.errors import InvalidInput, PermissionDenied
from shopfloor.repositories.tasks import Tasks
from shopfloor.repositories.uow import UnitOfWork


def move_task(uow: UnitOfWork, tasks: Tasks, task: Task, state: State, **changes: Any) -> Task:
    """Move a task to a state that its board allows."""
    check_move(BoardKind(task.kind), task.state, state)
    return tasks.transition(task, state, uow.now, **changes)


def add_dependency(tasks: Tasks, number: int, blocker: int) -> None:
    """Make a task wait for another on the same kind of board. Cycles are rejected."""
    if blocker == number:
        raise InvalidInput("A task cannot depend on itself", field="dependsOn")
    # Lock the graph first, always in this order: a cycle spans several rows, and the blocker must not complete between
    # the read and the count of open blockers.
    tasks.lock_graph()
    tasks.lock(blocker)
    tasks.get(blocker)
    if tasks.depends_on(blocker, number):
        raise InvalidInput(
            f"Task {number} cannot depend on task {blocker}, which already depends on it", field="dependsOn"
        )
    tasks.add_blocker(number, blocker)


def remove_dependency(tasks: Tasks, number: int, blocker: int) -> None:
    """Remove a dependency."""
    tasks.lock_graph()
    tasks.lock(blocker)
    tasks.remove_blocker(number, blocker)


def create_task(
    uow: UnitOfWork, *, title: str, epic: int | None, depends_on: Sequence[int], priority: int, **facts: Any
) -> Task:
    """Create a task in an epic, or in none."""
    if epic is not None:
        require_open_epic(uow, epic)
    task = uow.tasks.add(title=title, board="" if epic is None else str(epic), priority=priority, now=uow.now, **facts)
    for blocker in depends_on:
        add_dependency(uow.tasks, task.number, blocker)
    return emit_change(uow, uow.tasks.get(task.number))


def edit_task(
    uow: UnitOfWork,
    number: int,
    *,
    version: int | None,
    add: Sequence[int] = (),
    remove: Sequence[int] = (),
    **changes: Any,
) -> Task:
    """Change title, description, priority or dependencies. A version that is not the current one is rejected."""
    task = uow.tasks.get(number)
    uow.task = number
    if version is not None and version != task.version:
        raise InvalidInput(
            f"task-{number} has changed: it is at version {task.version}, not {version}",
            field="version",
            hint="Read it again, then repeat the change",
        )
    # Removals first, so that one edit can reverse a dependency.
    for blocker in remove:
        remove_dependency(uow.tasks, number, blocker)
    for blocker in add:
        add_dependency(uow.tasks, number, blocker)
    return emit_change(uow, uow.tasks.update(number, uow.now, **changes))


def add_comment(uow: UnitOfWork, task: Task, body: str) -> int:
    """Add the caller's comment to a task and return its number."""
    uow.task = task.number
    return uow.tasks.add_comment(task.number, to_participant(uow.actor).name, body, uow.now)


def set_acceptance(uow: UnitOfWork, number: int, command: Sequence[str] | None) -> Task:
    """Set the command that must pass before the task counts as done. Only a person may."""
    if uow.actor.kind is Kind.AGENT:
        raise PermissionDenied("Only a person sets an acceptance command")
    uow.task = number
    text = None if command is None else json.dumps(list(command), ensure_ascii=False)
    return emit_change(uow, uow.tasks.update(number, uow.now, acceptance=text))


def describe_blockers(uow: UnitOfWork, number: int) -> str:
    """Describe what blocks a task, or return an empty string."""
    blockers = uow.tasks.list_unfinished_blockers(number)
    if not blockers:
        return ""
    names = ", ".join(f"task-{blocker.number} ({blocker.state.value})" for blocker in blockers[:10])
    dead = any(blocker.state in (State.FAILED, State.CANCELLED) for blocker in blockers)
    advice = "; a failed or cancelled one keeps blocking until the dependency is removed" if dead else ""
    return f"task-{number} is blocked by {names}{advice}"


def require_open_epic(uow: UnitOfWork, number: int) -> None:
    """Reject an epic that has ended, and lock it against ending during this unit of work."""
    if not uow.epics.touch(number, uow.now).is_open:
        raise InvalidInput(f"epic-{number} has ended; it takes no further work", field="epicId")


def emit_change(uow: UnitOfWork, task: Task, by: str | None = None) -> Task:
    """Emit TaskChanged and return the task. `by` is the key of the principal that changed it, by default the caller."""
    uow.task = task.number
    uow.emit(TaskChanged(task=task.number, state=task.state.value, by=by or uow.actor.key))
    return task
