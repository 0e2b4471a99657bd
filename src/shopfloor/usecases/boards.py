"""Boards for people: columns of tasks, one task in detail, and manual moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shopfloor.domain.decisions import Entry, LogFilter, parse_context
from shopfloor.domain.runs import STATUSES, format_status, name_batch_item
from shopfloor.domain.tasks import FINISHED, MOVES, BoardKind, Comment, State, Task, TaskNotFound
from shopfloor.domain.times import DAY, HOUR, MINUTE
from shopfloor.errors import InvalidInput, InvalidState, NotFound
from shopfloor.repositories.tasks import Tasks
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import claims, run_tasks, tasks

MAX_COUNT = 1000
MAX_SCANNED_TASKS = 1000
MAX_NEIGHBOURS = 12
MAX_COMMENTS = 100
MAX_HISTORY_ROWS = 30
MAX_ASSIGNEES = 200
MAX_GRAPH_TASKS = 150
LATEST_COMPLETED = 5
MAX_PROGRESS_POINTS = 90
_STEPS = (MINUTE, 10 * MINUTE, HOUR, DAY)
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
    """Number of tasks that a filter examined, or None without one."""


@dataclass(frozen=True, slots=True)
class TaskDetails:
    """A task with everything that belongs to it."""

    task: Task
    blockers: list[Task]
    dependents: list[Task]
    comments: list[Comment]
    history: list[Entry]
    inputs: dict[int, Any]
    moves: Sequence[State]


@dataclass(frozen=True, slots=True)
class Graph:
    """The tasks of a board with the dependencies among them, as pairs of a task and its blocker."""

    tasks: list[Task]
    dependencies: list[tuple[int, int]]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class ProgressPoint:
    """The number of tasks of an epic at the end of a time step, and how many were completed."""

    at: int
    tasks: int
    completed: int


def get_board(uow: UnitOfWork, kind: BoardKind, name: str) -> Tasks:
    """Return the tasks of a board, or raise if there is no such board."""
    if kind is BoardKind.LOOP:
        uow.runs.get(name)
    elif name:
        uow.epics.get(int(name))
    return uow.tasks_of(kind, name)


def list_columns(
    uow: UnitOfWork, kind: BoardKind, name: str, *, limit: int, state: State | None, after: int | None, text: str | None
) -> list[Column]:
    """Return the board by state: `limit` tasks of each, and their total, up to 1,000.

    A text filter examines 1,000 tasks at a time; the next page continues where it stopped.
    """
    tasks_here = get_board(uow, kind, name)
    if state is not None or text is not None:
        wanted = COLUMNS[kind] if state is None else [state]
        return [_build_column(tasks_here, each, limit, after, text) for each in wanted]
    return [
        _build_column(tasks_here, each, limit, after, text)
        if each is not State.COMPLETED
        else _build_latest_completed(tasks_here)
        for each in COLUMNS[kind]
    ]


def _build_latest_completed(tasks_here: Tasks) -> Column:
    # On a board with all states, finished work is only counted; with `state` it can be paged through.
    count = tasks_here.count_up_to(MAX_COUNT, state=State.COMPLETED)
    return Column(State.COMPLETED, tasks_here.list_completed(LATEST_COMPLETED), count, None, None)


def _build_column(tasks_here: Tasks, state: State, limit: int, after: int | None, text: str | None) -> Column:
    count = tasks_here.count_up_to(MAX_COUNT, state=state)
    if text is None:
        found = tasks_here.list_page(limit=limit + 1, state=state, after=after)
        more = found[limit - 1].number if len(found) > limit else None
        return Column(state, found[:limit], count, more, None)
    looked_at = tasks_here.list_page(limit=MAX_SCANNED_TASKS, state=state, after=after)
    words = text.lower().split()
    fitting = [
        task
        for task in looked_at
        if all(word in f"task-{task.number} {task.title} {task.assignee or ''}".lower() for word in words)
    ]
    # A full scan has another page even if nothing on this one matched. The cursor is where the scan stopped, not the
    # last match: a rare word is found after some empty pages instead of after one scan of the whole board.
    if len(fitting) > limit:
        more = fitting[limit - 1].number
    else:
        more = looked_at[-1].number if len(looked_at) == MAX_SCANNED_TASKS else None
    return Column(state, fitting[:limit], count, more, len(looked_at))


def list_tasks(
    uow: UnitOfWork, *, limit: int, after: int | None, states: Sequence[State], epic: int | None, assignee: str | None
) -> list[Task]:
    """Return the tasks of all epics, or of one, that are in any of the states, by number."""
    board = None if epic is None else str(uow.epics.get(epic).id)
    # One query per state, each of which stops at the limit: `state IN (…)` in the order of numbers would read every
    # completed task to find the few open ones.
    found = [
        task
        for state in states
        for task in uow.tasks.list_page(limit=limit, after=after, state=state, board=board, assignee=assignee)
    ]
    return sorted(found, key=lambda task: task.number)[:limit]


def get_scope(uow: UnitOfWork, kind: BoardKind, name: str) -> Tasks:
    """Return the scope in which a task of that kind is looked up: all epics, or one run."""
    return uow.tasks if kind is BoardKind.EPIC else get_board(uow, kind, name)


def get_task_details(uow: UnitOfWork, kind: BoardKind, name: str, number: int) -> TaskDetails:
    """Return one task, even a deleted one, with its neighbours, comments and history."""
    tasks_here = get_scope(uow, kind, name)
    task = tasks_here.get(number, deleted=True)
    # The log has task numbers of epics only. A run's task with the same number is another task.
    history, _ = uow.decisions.search(LogFilter(task=number, desk=True), MAX_HISTORY_ROWS)
    inputs = uow.decisions.find_inputs([entry.reference for entry in history] if kind is BoardKind.EPIC else [])
    return TaskDetails(
        task=task,
        blockers=_load_tasks(tasks_here, tasks_here.list_blockers(number)[:MAX_NEIGHBOURS]),
        dependents=_load_tasks(tasks_here, tasks_here.list_dependents(number, MAX_NEIGHBOURS)),
        comments=tasks_here.list_comments(number, MAX_COMMENTS),
        history=history if kind is BoardKind.EPIC else [],
        inputs={reference: parse_context(text) for reference, text in inputs.items()},
        moves=list_moves(uow, task),
    )


def list_moves(uow: UnitOfWork, task: Task) -> Sequence[State]:
    """Return the states to which a person can move the task now."""
    if task.kind == BoardKind.EPIC:
        return claims.list_moves(uow, task)
    return () if task.deleted_at else MOVES[BoardKind(task.kind)].get(task.state, ())


def list_assignees(uow: UnitOfWork) -> list[str]:
    """Return the names of the agents that can take tasks now, at most 200."""
    agents = uow.agents.list_page(MAX_ASSIGNEES, active=True)
    return [agent.name for agent in agents if not agent.has_failed(uow.now)]


def load_graph(uow: UnitOfWork, kind: BoardKind, name: str) -> Graph:
    """Return the tasks of a board, open ones first if there are too many, and the dependencies among them."""
    tasks_here = get_board(uow, kind, name)
    found: list[Task] = []
    for state in sorted(COLUMNS[kind], key=lambda state: state in FINISHED):
        if len(found) <= MAX_GRAPH_TASKS:
            found += tasks_here.list_page(limit=MAX_GRAPH_TASKS + 1 - len(found), state=state)
    shown = sorted(found[:MAX_GRAPH_TASKS], key=lambda task: task.number)
    numbers = {task.number for task in shown}
    blockers = tasks_here.map_blockers(sorted(numbers))
    dependencies = [(task, blocker) for task, each in blockers.items() for blocker in each if blocker in numbers]
    return Graph(shown, dependencies, len(found) <= MAX_GRAPH_TASKS)


def load_progress(uow: UnitOfWork, epic: int) -> list[ProgressPoint]:
    """Return the progress of an epic, step by step from its first task to now or to its end.

    A step is a minute, ten minutes, an hour or a day: the shortest that gives at most 90 steps, since a crew is done
    within the hour, a team within the quarter. Only the first 1,000 tasks are counted.
    """
    found = uow.epics.get(epic)
    tasks_here = uow.tasks.list_page(limit=MAX_SCANNED_TASKS, board=str(epic))
    counted = [task for task in tasks_here if task.state is not State.CANCELLED]
    if not counted:
        return []
    begun, ended = min(task.created_at for task in counted), found.completed_at or uow.now
    step = next((each for each in _STEPS if ended // each - begun // each < MAX_PROGRESS_POINTS), DAY)
    first = max(begun // step, ended // step - MAX_PROGRESS_POINTS + 1)
    return [
        ProgressPoint(
            at * step,
            sum(task.created_at // step <= at for task in counted),
            sum(task.completed_at is not None and task.completed_at // step <= at for task in counted),
        )
        for at in range(first, ended // step + 1)
    ]


def change_tasks(
    uow: UnitOfWork, numbers: Sequence[int], *, state: State | None, assignee: str | None, priority: int | None
) -> list[Task]:
    """Move, assign or prioritize several tasks of epics: all of them, or none if one change is rejected."""
    changed = []
    # In a fixed order, so that two such calls cannot deadlock.
    for position, number in enumerate(sorted(set(numbers)), 1):
        with name_batch_item("task", position, len(set(numbers))):
            task = uow.tasks.get(number)
            if assignee is not None:
                task = claims.assign_task(uow, number, assignee)
            if priority is not None:
                task = tasks.edit_task(uow, number, version=None, priority=priority)
            if state is State.COMPLETED:
                task = claims.complete_task(uow, number, None)
            elif state is not None:
                task = move_task(uow, BoardKind.EPIC, "", number, state, None)
        changed.append(task)
    return changed


def _load_tasks(tasks_here: Tasks, numbers: list[int]) -> list[Task]:
    found = []
    for number in numbers:
        try:
            found.append(tasks_here.get(number, deleted=True))
        except NotFound:
            continue
    return found


def move_task(uow: UnitOfWork, kind: BoardKind, name: str, number: int, state: State, comment: str | None) -> Task:
    """Move a task to another state; the error for an illegal move lists the allowed ones."""
    if kind is BoardKind.LOOP:
        if state not in COLUMNS[BoardKind.LOOP]:
            raise InvalidInput(f"Runs have no state {state}", field="state")
        return run_tasks.update_task(uow, name, f"TAS-{number}", format_status(state))
    uow.tasks.lock(number)
    return claims.report_state(uow, uow.tasks.get(number), state, fence=None, comment=comment)


def delete_task(uow: UnitOfWork, number: int) -> Task:
    """Delete a task of an epic; it can be restored. A task that an agent holds must be cancelled first.

    The tasks that depend on it no longer wait for it.
    """
    # The graph first, as in tasks.add_dependency.
    uow.tasks.lock_graph()
    uow.tasks.lock(number)
    task = uow.tasks.get(number)
    if task.state in (State.ASSIGNED, State.IN_PROGRESS):
        raise InvalidState(f"task-{number} is assigned to {task.assignee}", hint="Cancel it or give it back first")
    return tasks.emit_change(uow, uow.tasks.delete(task, uow.now))


def restore_task(uow: UnitOfWork, number: int) -> Task:
    """Put a deleted task back on its board. An epic that has ended takes back finished tasks only."""
    uow.tasks.lock_graph()
    uow.tasks.lock(number)
    task = uow.tasks.get(number, deleted=True)
    if task.deleted_at is None:
        return task
    if task.deleted_at < uow.now - KEPT_DAYS * DAY:
        raise TaskNotFound(task=number)
    if task.epic is not None and task.state not in FINISHED:
        tasks.require_open_epic(uow, task.epic)
    return tasks.emit_change(uow, uow.tasks.restore(task, uow.now))


def purge_deleted(uow: UnitOfWork, limit: int) -> int:
    """Purge tasks of epics that were deleted too long ago to be restored, and return how many."""
    return uow.tasks.purge_deleted(uow.now - KEPT_DAYS * DAY, limit)
