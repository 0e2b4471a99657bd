"""What every board can do with its tasks: move them, and let them wait for each other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from shopfloor.domain.actors import Kind
from shopfloor.domain.events import TaskChanged
from shopfloor.domain.mail import party_of
from shopfloor.domain.tasks import BoardKind, State, Task, check_move
from shopfloor.errors import InvalidInput, PermissionDenied
from shopfloor.repositories.tasks import Tasks
from shopfloor.repositories.work import Work


def move(work: Work, tasks: Tasks, task: Task, state: State, **changes: Any) -> Task:
    """The task in its new state; those that wait for it are told by the count of their blockers."""
    check_move(BoardKind(task.kind), task.state, state)
    if state is task.state:
        return tasks.change(task.number, work.now, **changes) if changes else task
    completed_at = work.now if state is State.COMPLETED else None
    moved = tasks.change(task.number, work.now, state=state.value, completed_at=completed_at, **changes)
    if state is State.COMPLETED:
        tasks.release_dependents(task.number)
    elif task.completed:
        tasks.release_dependents(task.number, +1)
    return moved


def depend(tasks: Tasks, number: int, blocker: int) -> None:
    """Let a task wait for another of the same kind of board; a circle is refused."""
    if blocker == number:
        raise InvalidInput("A task cannot wait for itself", field="dependsOn")
    tasks.lock_graph()
    tasks.hold(blocker)
    tasks.get(blocker)
    if tasks.reaches(blocker, number):
        raise InvalidInput(
            f"Task {number} cannot wait for task {blocker}, which already waits for it", field="dependsOn"
        )
    tasks.add_blocker(number, blocker)


def undepend(tasks: Tasks, number: int, blocker: int) -> None:
    """Let a task no longer wait for another."""
    tasks.lock_graph()
    tasks.hold(blocker)
    tasks.remove_blocker(number, blocker)


def create(work: Work, *, title: str, epic: int | None, depends_on: Sequence[int], priority: int, **facts: Any) -> Task:
    """A new task of an epic, or of none, that waits for those it depends on."""
    if epic is not None:
        open_epic(work, epic)
    task = work.tasks.add(
        title=title, board="" if epic is None else str(epic), priority=priority, now=work.now, **facts
    )
    for blocker in depends_on:
        depend(work.tasks, task.number, blocker)
    return changed(work, work.tasks.get(task.number))


def edit(
    work: Work,
    number: int,
    *,
    version: int | None,
    add: Sequence[int] = (),
    remove: Sequence[int] = (),
    **changes: Any,
) -> Task:
    """The task with other words, priority or dependencies; a version that is not the current one is refused."""
    task = work.tasks.get(number)
    work.task = number
    if version is not None and version != task.version:
        raise InvalidInput(
            f"task-{number} has changed: it is at version {task.version}, not {version}",
            field="version",
            hint="Read it again, then decide anew",
        )
    for blocker in remove:
        undepend(work.tasks, number, blocker)
    for blocker in add:
        depend(work.tasks, number, blocker)
    return changed(work, work.tasks.change(number, work.now, **changes))


def comment(work: Work, task: Task, body: str) -> int:
    """The number of the caller's comment on a task."""
    work.task = task.number
    return work.tasks.add_comment(task.number, party_of(work.actor).name, body, work.now)


def accept(work: Work, number: int, command: Sequence[str] | None) -> Task:
    """The task with the command that proves it done, which only a person sets; the floor never runs it."""
    if work.actor.kind is Kind.AGENT:
        raise PermissionDenied("Only a person sets an acceptance command")
    work.task = number
    text = None if command is None else json.dumps(list(command), ensure_ascii=False)
    return changed(work, work.tasks.change(number, work.now, acceptance=text))


def why_blocked(work: Work, number: int) -> str:
    """What a task waits for, in words; a failed or cancelled blocker will not go away by itself."""
    blockers = work.tasks.unfinished_blockers(number)
    if not blockers:
        return ""
    names = ", ".join(f"task-{blocker.number} ({blocker.state.value})" for blocker in blockers[:10])
    dead = any(blocker.state in (State.FAILED, State.CANCELLED) for blocker in blockers)
    advice = "; a failed or cancelled one keeps blocking until it is removed from dependsOn" if dead else ""
    return f"task-{number} waits for {names}{advice}"


def open_epic(work: Work, number: int) -> None:
    """Refuse an epic that has ended; it cannot end while this work lasts."""
    if not work.epics.touch(number, work.now).open:
        raise InvalidInput(f"epic-{number} has ended; it takes no further work", field="epicId")


def changed(work: Work, task: Task) -> Task:
    """The task, after everybody who wants to know has been told that it changed."""
    work.task = task.number
    work.tell(TaskChanged(task=task.number, state=task.state.value, by=work.actor.key))
    return task
