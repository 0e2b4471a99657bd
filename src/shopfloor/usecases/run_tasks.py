"""The tasks of a run: what its agent adds and changes, and which acceptance commands people approve."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from shopfloor.domain import runs
from shopfloor.domain.run_events import RunTaskChanged
from shopfloor.domain.runs import format_status, format_task_id, shorten
from shopfloor.domain.tasks import DEFAULT_PRIORITY, BoardKind, IllegalMove, State, Task, TaskNotFound
from shopfloor.errors import InvalidInput, NotFound
from shopfloor.repositories.tasks import Tasks
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import run_requests, tasks

_TASK_ID = re.compile(rf"(?:{runs.TASK_PREFIX})?([0-9]{{1,18}})", re.IGNORECASE)
_PAGE_SIZE = 200


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to add."""

    content: str
    status: str = ""
    priority: float | None = None


@dataclass(frozen=True, slots=True)
class NextTask:
    """The next task, the one in progress, and the number that wait for others if none is ready."""

    task: Task | None
    in_progress: Task | None
    waiting: int


def add_tasks(uow: UnitOfWork, run: str, new: Sequence[NewTask]) -> list[Task]:
    """Add all tasks, or none."""
    first: dict[str, int] = {}
    started = [position for position, task in enumerate(new, 1) if _is_in_progress(task)]
    if len(started) > 1:
        # Raised before any task gets an id, which would be rolled back with the batch.
        raise InvalidInput(
            f"tasks {started[0]} and {started[1]} of {len(new)} are both in progress, and only one task can be",
            hint="Nothing was added. Set one of them to remaining",
        )
    for position, task in enumerate(new, 1):
        before = first.setdefault(runs.make_content_key(task.content), position)
        if before != position:
            raise InvalidInput(
                f"tasks {before} and {position} of this call have the same content: {shorten(task.content)}",
                hint="Nothing was added. Call again with each task once",
            )
    uow.runs.lock(run, uow.now)
    board = uow.tasks_of(BoardKind.LOOP, run)
    added = []
    for position, task in enumerate(new, 1):
        with runs.name_batch_item("task", position, len(new)):
            added.append(_add_task(uow, board, run, task))
    return added


def _is_in_progress(new: NewTask) -> bool:
    with suppress(InvalidInput):
        return runs.parse_status(new.status.strip()) is State.IN_PROGRESS
    # Blank or invalid; reported later with the position of the task.
    return False


def _add_task(uow: UnitOfWork, board: Tasks, run: str, new: NewTask) -> Task:
    content = runs.check_content(new.content, "a task")
    key = runs.make_content_key(content)
    same = board.find_by_content(key)
    if same is not None:
        raise InvalidInput(
            f"the same content is already in {format_task_id(same.number)}: {shorten(same.title)}",
            rule="same_content",
            task=format_task_id(same.number),
        )
    state = runs.parse_status(new.status.strip()) if new.status.strip() else State.PENDING
    _keep_one_in_progress(board, state, None)
    task = board.add(
        title=content,
        now=uow.now,
        state=state.value,
        priority=DEFAULT_PRIORITY if new.priority is None else runs.parse_priority(new.priority),
        content_key=key,
        completed_at=uow.now if state is State.COMPLETED else None,
    )
    uow.emit(RunTaskChanged(run=run, task=task.number))
    command = runs.parse_proposed_command(task.title)
    # Until a person approves it, the command is only text: an agent must not decide what proves its own work.
    if command is not None:
        question = f"May this command prove {format_task_id(task.number)} done? {shlex.join(command)}"
        about = json.dumps([task.number, command])
        run_requests.ask_person(uow, run, "acceptance", question, run_requests.APPROVAL, about)
    return task


def update_task(
    uow: UnitOfWork, run: str, id: str, status: str = "", priority: float | None = None, depends_on: str = ""
) -> Task:
    """Make all changes, or none, and return the task."""
    uow.runs.lock(run, uow.now)
    board = uow.tasks_of(BoardKind.LOOP, run)
    task = get_task(board, id)
    _change_dependencies(board, task, depends_on)
    if priority is not None:
        task = board.update(task.number, uow.now, priority=runs.parse_priority(priority))
    if status.strip():
        state = runs.parse_status(status.strip())
        _keep_one_in_progress(board, state, task)
        try:
            task = tasks.move_task(uow, board, task, state)
        except IllegalMove:
            raise InvalidInput(
                f"{format_task_id(task.number)} is {format_status(task.state)}, and that is final",
                rule="final_state",
            ) from None
    uow.emit(RunTaskChanged(run=run, task=task.number))
    return board.get(task.number)


def _keep_one_in_progress(board: Tasks, state: State, task: Task | None) -> None:
    if state is not State.IN_PROGRESS:
        return
    for other in board.list_page(limit=2, state=State.IN_PROGRESS):
        if task is None or other.number != task.number:
            id = format_task_id(other.number)
            raise InvalidInput(
                f"{id} is in progress, and only one task can be",
                hint=f"Nothing was changed. Finish {id} first, or set it to remaining or blocked",
            )


def _change_dependencies(board: Tasks, task: Task, depends_on: str) -> None:
    """Apply a list like 'TAS-1, -TAS-2'."""
    parts = [part for part in (part.strip() for part in depends_on.split(",")) if part]
    # Removals come first, so that one call can reverse a dependency without a temporary cycle.
    for part in parts:
        if part.startswith("-"):
            tasks.remove_dependency(board, task.number, get_task(board, part[1:]).number)
    for part in parts:
        if part.startswith("-"):
            continue
        blocker = get_task(board, part)
        try:
            tasks.add_dependency(board, task.number, blocker.number)
        except InvalidInput:
            itself = task.number == blocker.number
            what = "itself" if itself else f"{format_task_id(blocker.number)}, which depends on it"
            raise InvalidInput(
                f"{format_task_id(task.number)} cannot depend on {what}",
                hint="Nothing was changed. Choose another order, or remove a dependency with a minus sign: -TAS-1",
            ) from None


def get_task(board: Tasks, id: str) -> Task:
    """Return the task with this id, or the only one whose id starts with it."""
    text = id.strip()
    match = _TASK_ID.fullmatch(text)
    if match is not None:
        try:
            return board.get(int(match[1]))
        except TaskNotFound:
            pass
    found: list[int] = []
    if match is not None or runs.TASK_PREFIX.startswith(text.upper() or "-"):
        found = board.list_numbers_with_prefix(match[1] if match else "", 2)
    if len(found) > 1:
        raise InvalidInput(
            f"'{text}' is ambiguous: {', '.join(map(format_task_id, found))}, …", hint="Write the whole id"
        )
    if not found:
        raise NotFound(f"task '{text[:40]}' not found", rule="unknown_task")
    return board.get(found[0])


def find_next_task(uow: UnitOfWork, run: str) -> NextTask:
    """Find the task to start with: not blocked, most urgent, oldest."""
    board = uow.tasks_of(BoardKind.LOOP, run)
    ready = board.list_ready(run, claiming=False)
    in_progress = board.list_page(limit=1, state=State.IN_PROGRESS)
    return NextTask(
        ready[0] if ready else None,
        in_progress[0] if in_progress else None,
        board.count(state=State.PENDING) if not ready else 0,
    )


def iterate_tasks(uow: UnitOfWork, run: str) -> Iterator[Task]:
    """Yield every task of a run, by number."""
    board = uow.tasks_of(BoardKind.LOOP, run)
    after = 0
    while page := board.list_page(limit=_PAGE_SIZE, after=after):
        yield from page
        after = page[-1].number


def list_open_tasks(uow: UnitOfWork, run: str) -> list[Task]:
    """Return some of the unfinished tasks: those in progress first, then the remaining ones."""
    board = uow.tasks_of(BoardKind.LOOP, run)
    return board.list_page(limit=5, state=State.IN_PROGRESS) + board.list_page(limit=5, state=State.PENDING)


def reopen_task(uow: UnitOfWork, run: str, number: int) -> Task:
    """Set a completed task back to remaining because its acceptance command failed. Only the runner may do so."""
    uow.runs.lock(run, uow.now)
    board = uow.tasks_of(BoardKind.LOOP, run)
    task = board.get(number)
    if task.state is State.COMPLETED:
        task = board.transition(task, State.PENDING, uow.now)
        uow.emit(RunTaskChanged(run=run, task=number))
    return task


def settle_proposal(uow: UnitOfWork, request: runs.Request, *, approved: bool) -> None:
    """Set the command that a task proposes if a person approved it, and inform the agent."""
    # The command comes from the request: exactly what the person saw, not what the task says by now.
    task, command = json.loads(request.about or "[]")
    if approved:
        uow.tasks_of(BoardKind.LOOP, request.run).update(task, uow.now, acceptance=json.dumps(command))
        uow.emit(RunTaskChanged(run=request.run, task=task))
    what = "was approved and has to pass" if approved else "was not approved and does not count"
    text = f"The acceptance command of {format_task_id(task)} {what}."
    uow.run_messages.add(request.run, uow.actor.key, text, uow.now)


def set_acceptance_command(uow: UnitOfWork, run: str, id: str, command: Sequence[str] | None) -> Task:
    """Set the command that must pass before the run counts as done, and withdraw proposals for the task.

    Only people reach this use case: an agent proposes a command, and a person approves it.
    """
    uow.runs.lock(run, uow.now)
    board = uow.tasks_of(BoardKind.LOOP, run)
    text = None if command is None else json.dumps(command)
    task = board.update(get_task(board, id).number, uow.now, acceptance=text)
    run_requests.withdraw_proposals(uow, run, task.number)
    uow.emit(RunTaskChanged(run=run, task=task.number))
    return task
