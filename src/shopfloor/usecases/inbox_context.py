"""The context of an inbox item: the run and the tasks that a person needs to see to answer it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shopfloor.domain.mail import Mail
from shopfloor.domain.runs import Run
from shopfloor.domain.tasks import BoardKind, Comment, State, Task
from shopfloor.errors import NotFound
from shopfloor.repositories.uow import UnitOfWork

MAX_TASKS = 3
MAX_COMMENTS = 3

_TASK_ID = re.compile(r"\btask-(\d{1,18})\b")


@dataclass(frozen=True, slots=True)
class TaskContext:
    """A task with the title of its epic or run, and its last comments."""

    task: Task
    board_title: str
    comments: list[Comment]


@dataclass(frozen=True, slots=True)
class ItemContext:
    """The run and the tasks that an item is about."""

    run: Run | None
    tasks: list[TaskContext]


def find_mail_context(uow: UnitOfWork, mail: Mail) -> ItemContext:
    """Find the tasks that a mail mentions, then the task that its sender works on, or the run that sent it."""
    address = mail.sender.address
    if address is not None and mail.sender.agent is None:
        run = uow.runs.find(address.partition(":")[2])
        return ItemContext(None, []) if run is None else find_run_context(uow, run.name)
    numbers = [int(number) for number in _TASK_ID.findall(f"{mail.subject}\n{mail.body}")]
    if mail.sender.agent is not None:
        try:
            current = uow.agents.get(mail.sender.agent).current_task
        except NotFound:
            current = None
        numbers += [] if current is None else [current]
    wanted = list(dict.fromkeys(numbers))[:MAX_TASKS]
    found = {task.number: task for task in uow.tasks.find_many(wanted)}
    return ItemContext(None, [_describe_task(uow, found[number]) for number in wanted if number in found])


def find_run_context(uow: UnitOfWork, name: str) -> ItemContext:
    """Find a run and the tasks that it works on now."""
    board = uow.tasks_of(BoardKind.LOOP, name)
    current = board.list_page(limit=MAX_TASKS, state=State.IN_PROGRESS)
    return ItemContext(uow.runs.get(name), [TaskContext(task, name, []) for task in current])


def _describe_task(uow: UnitOfWork, task: Task) -> TaskContext:
    title = "" if task.epic is None else uow.epics.get(task.epic).title
    return TaskContext(task, title, uow.tasks.list_comments(task.number, MAX_COMMENTS))
