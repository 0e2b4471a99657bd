"""A user's own list. Nobody else's is in reach: the repository is made for one user, from the caller's identity."""

from __future__ import annotations

from typing import Any

from shopfloor.domain.actors import Kind
from shopfloor.domain.tasks import DEFAULT_PRIORITY, BoardKind, State, Task, TaskNotFound
from shopfloor.domain.todos import KEPT, Page, TodoChanged
from shopfloor.errors import InvalidInput, PermissionDenied
from shopfloor.repositories.tasks import Tasks
from shopfloor.repositories.work import Work
from shopfloor.usecases import people, tasks

BATCH = 1000


def add(work: Work, title: str, description: str | None = None, **details: Any) -> Task:
    """A new task on the caller's list. A user exists from the first write on."""
    own = _list(work)
    people.ensure(work)
    task = own.add(title=title, description=description, now=work.now, **{"priority": DEFAULT_PRIORITY, **details})
    return _told(work, task, "added")


def page(work: Work, completed: bool | None, limit: int, after: int | None = None) -> Page:
    """Tasks of the caller, newest first, beginning after one."""
    own, state = _list(work), _state(completed)
    found = own.page(limit=limit + 1, after=after, newest_first=True, state=state)
    more = len(found) > limit
    count = own.count(state=state) if more or after is not None else len(found)
    return Page(found[:limit], count, found[limit - 1].number if more else None)


def everything(work: Work, completed: bool | None) -> list[Task]:
    """All tasks of the caller, newest first."""
    own, state = _list(work), _state(completed)
    found: list[Task] = []
    while batch := own.page(limit=BATCH, after=found[-1].number if found else None, newest_first=True, state=state):
        found += batch
        if len(batch) < BATCH:
            break
    return found


def get(work: Work, number: int) -> Task:
    """One task of the caller."""
    return _list(work).get(number)


def complete(work: Work, number: int) -> tuple[Task, bool]:
    """Finish a task. Finishing it twice is fine; the flag says whether this call did it."""
    return _move(work, number, State.COMPLETED, "completed")


def reopen(work: Work, number: int) -> tuple[Task, bool]:
    """Take a finished task up again; the flag says whether this call did it."""
    return _move(work, number, State.PENDING, "reopened")


def update(work: Work, number: int, **changes: Any) -> Task:
    """The task with other words, and whatever else of it is given."""
    if not changes:
        raise InvalidInput("There is nothing to change", rule="nothing_to_change")
    own = _list(work)
    own.get(number)
    return _told(work, own.change(number, work.now, **changes), "updated")


def delete(work: Work, number: int) -> Task:
    """The task, which is off the list and can be restored for a while."""
    own = _list(work)
    task = own.get(number)
    own.change(number, work.now, deleted_at=work.now)
    return _told(work, task, "deleted")


def restore(work: Work, number: int) -> Task:
    """The task, back on the list as it was; one that was never deleted just stays."""
    own = _list(work)
    task = own.get(number, deleted=True)
    if task.deleted_at is None:
        return task
    if task.deleted_at < work.now - KEPT:
        raise TaskNotFound(task=number)
    return _told(work, own.change(number, work.now, deleted_at=None), "restored")


def deleted(work: Work, limit: int) -> list[Task]:
    """What the caller can still restore, the last one first."""
    return _list(work).deleted(work.now - KEPT, limit)


def purge(work: Work) -> None:
    """Nothing is kept of tasks deleted, and of users removed, longer ago than can be undone."""
    work.tasks_in(BoardKind.LIST).forget(work.now - KEPT, BATCH)
    for name in work.people.removed_before(work.now - KEPT, 10):
        work.tasks_of(BoardKind.LIST, name).clear()
        work.conversations_of(name).clear()
        work.people.forget(name)


def _list(work: Work) -> Tasks:
    if work.actor.kind is not Kind.USER:
        raise PermissionDenied(f"Only users have a list; this is {work.actor.title}")
    return work.tasks_of(BoardKind.LIST, work.actor.name)


def _move(work: Work, number: int, state: State, change: str) -> tuple[Task, bool]:
    own = _list(work)
    task = own.get(number)
    if task.state is state:
        return task, False
    return _told(work, tasks.move(work, own, task, state), change), True


def _state(completed: bool | None) -> State | None:
    return None if completed is None else State.COMPLETED if completed else State.PENDING


def _told(work: Work, task: Task, change: str) -> Task:
    work.tell(TodoChanged(task=task.number, user=work.actor.name, change=change))
    return task
