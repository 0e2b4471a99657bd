"""What every board can do with its tasks: move them, and let them wait for each other."""

from __future__ import annotations

from typing import Any

from shopfloor.domain.tasks import BoardKind, State, Task, check_move
from shopfloor.errors import InvalidInput
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
