"""Boards as a person sees them: columns of tasks, one task with all around it, and moves by hand."""

from __future__ import annotations

from dataclasses import dataclass

from shopfloor.domain.decisions import Entry, Sought
from shopfloor.domain.loops import STATUSES, spell
from shopfloor.domain.tasks import MOVES, BoardKind, Comment, State, Task
from shopfloor.errors import InvalidInput, NotFound, WrongState
from shopfloor.repositories.tasks import Tasks
from shopfloor.repositories.work import Work
from shopfloor.usecases import claims, loops, tasks

COUNTED = 1000
SCANNED = 1000
AROUND = 12
COMMENTS = 100
HISTORY = 30
KEPT_DAYS = 30

COLUMNS: dict[BoardKind, tuple[State, ...]] = {
    BoardKind.EPIC: tuple(State),
    BoardKind.LOOP: tuple(STATUSES.values()),
}


@dataclass(frozen=True, slots=True)
class Column:
    """The tasks of a board in one state."""

    state: State
    tasks: list[Task]
    count: int
    more_after: int | None
    searched: int | None
    """How many tasks a filter looked at, where it was one."""


@dataclass(frozen=True, slots=True)
class Around:
    """A task, and everything that belongs to it."""

    task: Task
    blockers: list[Task]
    dependents: list[Task]
    comments: list[Comment]
    history: list[Entry]
    moves: tuple[State, ...]


def board(work: Work, kind: BoardKind, name: str) -> Tasks:
    """The tasks of a board that exists."""
    if kind is BoardKind.LOOP:
        work.runs.get(name)
    elif name:
        work.epics.get(int(name))
    return work.tasks_of(kind, name)


def columns(
    work: Work, kind: BoardKind, name: str, *, limit: int, state: State | None, after: int | None, text: str | None
) -> list[Column]:
    """The board, state by state; of each so many tasks, and how many there are, up to 1,000. A text is looked for among
    so many tasks at a time; the next page goes on where it stopped."""
    tasks_here = board(work, kind, name)
    wanted = [state] if state is not None else COLUMNS[kind]
    return [_column(tasks_here, each, limit, after, text) for each in wanted]


def _column(tasks_here: Tasks, state: State, limit: int, after: int | None, text: str | None) -> Column:
    count = tasks_here.count_up_to(COUNTED, state=state)
    if text is None:
        found = tasks_here.page(limit=limit + 1, state=state, after=after)
        more = found[limit - 1].number if len(found) > limit else None
        return Column(state, found[:limit], count, more, None)
    looked_at = tasks_here.page(limit=SCANNED, state=state, after=after)
    fitting = [task for task in looked_at if text.casefold() in _words(task)]
    if len(fitting) > limit:
        more = fitting[limit - 1].number
    else:
        more = looked_at[-1].number if len(looked_at) == SCANNED else None
    return Column(state, fitting[:limit], count, more, len(looked_at))


def _words(task: Task) -> str:
    """What a filter looks at."""
    return f"{task.number} {task.title} {task.assignee or ''}".casefold()


def scope(work: Work, kind: BoardKind, name: str) -> Tasks:
    """Where a task of that kind is looked for: all epics, or one loop."""
    return work.tasks if kind is BoardKind.EPIC else board(work, kind, name)


def around(work: Work, kind: BoardKind, name: str, number: int) -> Around:
    """One task, also a deleted one, with its neighbours, comments and history."""
    tasks_here = scope(work, kind, name)
    task = tasks_here.get(number, deleted=True)
    history, _ = work.decisions.search(Sought(task=number, desk=True), HISTORY)
    return Around(
        task=task,
        blockers=_neighbours(tasks_here, tasks_here.blockers(number)[:AROUND]),
        dependents=_neighbours(tasks_here, tasks_here.dependents(number, AROUND)),
        comments=tasks_here.comments(number, COMMENTS),
        history=history if kind is BoardKind.EPIC else [],
        moves=() if task.deleted_at else MOVES[kind].get(task.state, ()),
    )


def _neighbours(tasks_here: Tasks, numbers: list[int]) -> list[Task]:
    found = []
    for number in numbers:
        try:
            found.append(tasks_here.get(number, deleted=True))
        except NotFound:
            continue
    return found


def move(work: Work, kind: BoardKind, name: str, number: int, state: State, comment: str | None) -> Task:
    """The task in its new state, as a person wants it; an illegal move is refused and names the allowed ones."""
    if kind is BoardKind.LOOP:
        if state not in COLUMNS[BoardKind.LOOP]:
            raise InvalidInput(f"A loop knows no state {state}", field="state")
        return loops.update_task(work, name, f"TAS-{number}", spell(state))
    work.tasks.hold(number)
    return claims.report(work, work.tasks.get(number), state, fence=None, comment=comment)


def delete(work: Work, number: int) -> Task:
    """A task of an epic, out of sight; it can be restored. One that somebody has in hand is cancelled first."""
    work.tasks.hold(number)
    task = work.tasks.get(number)
    if task.state in (State.ASSIGNED, State.IN_PROGRESS):
        raise WrongState(f"task-{number} is in the hands of {task.assignee}", hint="Cancel it or give it back first")
    return tasks.changed(work, work.tasks.change(number, work.now, deleted_at=work.now))


def restore(work: Work, number: int) -> Task:
    """A deleted task, back on its board."""
    task = work.tasks.get(number, deleted=True)
    if task.deleted_at is None:
        return task
    return tasks.changed(work, work.tasks.change(number, work.now, deleted_at=None))
