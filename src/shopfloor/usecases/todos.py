"""A user's own todo list. The repository is scoped to the caller, so other lists are out of reach."""

from __future__ import annotations

from typing import Any

from shopfloor.domain.principals import Kind
from shopfloor.domain.tasks import DEFAULT_PRIORITY, BoardKind, State, Task, TaskNotFound
from shopfloor.domain.todos import DELETED_RETENTION, TodoChanged, TodoPage
from shopfloor.errors import InvalidInput, PermissionDenied
from shopfloor.repositories.tasks import Tasks
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import tasks, users

BATCH_SIZE = 1000


def add_task(uow: UnitOfWork, title: str, description: str | None = None, **details: Any) -> Task:
    """Add a task to the caller's list. The first write creates the user."""
    own = _own_tasks(uow)
    users.ensure_user(uow)
    task = own.add(title=title, description=description, now=uow.now, **{"priority": DEFAULT_PRIORITY, **details})
    return _emit_change(uow, task, "added")


def list_page(uow: UnitOfWork, completed: bool | None, limit: int, after: int | None = None) -> TodoPage:
    """List tasks of the caller, newest first, starting after the given one."""
    own, state = _own_tasks(uow), _to_state(completed)
    found = own.list_page(limit=limit + 1, after=after, newest_first=True, state=state)
    more = len(found) > limit
    count = own.count(state=state) if more or after is not None else len(found)
    return TodoPage(found[:limit], count, found[limit - 1].number if more else None)


def list_all_tasks(uow: UnitOfWork, completed: bool | None) -> list[Task]:
    """List all tasks of the caller, newest first."""
    own, state = _own_tasks(uow), _to_state(completed)
    found: list[Task] = []
    while batch := own.list_page(
        limit=BATCH_SIZE, after=found[-1].number if found else None, newest_first=True, state=state
    ):
        found += batch
        if len(batch) < BATCH_SIZE:
            break
    return found


def get_task(uow: UnitOfWork, number: int) -> Task:
    """Return one task of the caller."""
    return _own_tasks(uow).get(number)


def complete_task(uow: UnitOfWork, number: int) -> tuple[Task, bool]:
    """Complete a task. Completing it again changes nothing; the flag says whether this call did it."""
    return _set_state(uow, number, State.COMPLETED, "completed")


def reopen_task(uow: UnitOfWork, number: int) -> tuple[Task, bool]:
    """Reopen a completed task; the flag says whether this call did it."""
    return _set_state(uow, number, State.PENDING, "reopened")


def update_task(uow: UnitOfWork, number: int, **changes: Any) -> Task:
    """Change a task."""
    if not changes:
        raise InvalidInput("There is nothing to change", rule="nothing_to_change")
    own = _own_tasks(uow)
    own.get(number)
    return _emit_change(uow, own.update(number, uow.now, **changes), "updated")


def delete_task(uow: UnitOfWork, number: int) -> Task:
    """Delete a task; it can be restored for 30 days."""
    own = _own_tasks(uow)
    task = own.get(number)
    own.delete(task, uow.now)
    return _emit_change(uow, task, "deleted")


def restore_task(uow: UnitOfWork, number: int) -> Task:
    """Restore a deleted task. Restoring one that is not deleted changes nothing."""
    own = _own_tasks(uow)
    task = own.get(number, deleted=True)
    if task.deleted_at is None:
        return task
    if task.deleted_at < uow.now - DELETED_RETENTION:
        raise TaskNotFound(task=number)
    return _emit_change(uow, own.restore(task, uow.now), "restored")


def list_deleted(uow: UnitOfWork, limit: int) -> list[Task]:
    """List the tasks that the caller can still restore, most recently deleted first."""
    return _own_tasks(uow).list_deleted(uow.now - DELETED_RETENTION, limit)


def purge_deleted(uow: UnitOfWork, limit: int) -> int:
    """Purge tasks and users that were deleted too long ago to be restored; return how many rows, up to the limit."""
    before = uow.now - DELETED_RETENTION
    purged = uow.tasks_in(BoardKind.LIST).purge_deleted(before, limit)
    for name in uow.users.list_removed_before(before, limit - purged):
        purged += uow.tasks_of(BoardKind.LIST, name).delete_all(limit - purged)
        purged += uow.conversations_of(name).delete_all(limit - purged)
        if purged == limit:
            # More of this user's rows may be left for the next batch.
            break
        uow.users.mark_purged(name)
        purged += 1
    return purged


def _own_tasks(uow: UnitOfWork) -> Tasks:
    if uow.actor.kind is not Kind.USER:
        raise PermissionDenied(f"Only users have a list; this is {uow.actor.title}")
    return uow.tasks_of(BoardKind.LIST, uow.actor.name)


def _set_state(uow: UnitOfWork, number: int, state: State, change: str) -> tuple[Task, bool]:
    own = _own_tasks(uow)
    task = own.get(number)
    if task.state is state:
        return task, False
    return _emit_change(uow, tasks.move_task(uow, own, task, state), change), True


def _to_state(completed: bool | None) -> State | None:
    return None if completed is None else State.COMPLETED if completed else State.PENDING


def _emit_change(uow: UnitOfWork, task: Task, change: str) -> Task:
    uow.emit(TodoChanged(task=task.number, user=uow.actor.name, change=change))
    return task
