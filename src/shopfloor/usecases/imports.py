"""Imports: copy epics, tasks, comments and dependencies from another tracker, each of them once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shopfloor.domain.epics import EpicState
from shopfloor.domain.tasks import State, TaskNotFound
from shopfloor.errors import ClientError, InvalidInput
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import epics, tasks


@dataclass(frozen=True, slots=True)
class ImportedComment:
    """A comment to import."""

    foreign_id: str
    author: str
    body: str
    created_at: int | None


@dataclass(frozen=True, slots=True)
class ImportedItem:
    """An epic or a task to import. `epic` is the foreign id of its epic."""

    foreign_id: str
    kind: str
    title: str
    description: str
    state: State
    priority: int
    epic: str | None
    completed_at: int | None
    comments: Sequence[ImportedComment]


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """The outcome of an item: created, known from an earlier import, or rejected with a reason."""

    foreign_id: str
    outcome: str
    number: int | None
    new_comments: int = 0
    reason: str = ""


def import_items(uow: UnitOfWork, source: str, items: Sequence[ImportedItem]) -> list[ImportOutcome]:
    """Create the items that were not imported before, and add new comments to the others."""
    # Two concurrent imports would both find an id unknown. The lock on the graph's row serializes them.
    uow.tasks.lock_graph()
    return [_import_item(uow, source, item) for item in items]


def import_dependencies(
    uow: UnitOfWork, source: str, pairs: Sequence[tuple[str, str]]
) -> tuple[int, list[tuple[str, str, str]]]:
    """Add dependencies between imported tasks. Return the number of new ones, and the skipped ones with reasons."""
    added = 0
    rejected = []
    for task, blocker in pairs:
        numbers = [uow.foreign_ids.find(source, "task", each) for each in (task, blocker)]
        try:
            if numbers[0] is None or numbers[1] is None:
                raise InvalidInput(f"{task if numbers[0] is None else blocker} was not imported as a task")
            if uow.tasks.get(numbers[1]).state is State.CANCELLED:
                raise InvalidInput(f"{blocker} is cancelled and would block forever")
            if numbers[1] not in uow.tasks.list_blockers(numbers[0]):
                tasks.add_dependency(uow.tasks, numbers[0], numbers[1])
                added += 1
        except ClientError as error:
            rejected.append((task, blocker, error.message))
    return added, rejected


def close_epics(uow: UnitOfWork, source: str, foreign_ids: Sequence[str]) -> int:
    """Complete imported epics that are closed in their tracker, unless one of their tasks is open."""
    closed = 0
    for foreign_id in foreign_ids:
        number = uow.foreign_ids.find(source, "epic", foreign_id)
        if number is not None and uow.epics.get(number).is_open and uow.tasks.find_open(str(number)) is None:
            epics.move_epic(uow, number, EpicState.COMPLETED)
            closed += 1
    return closed


def _import_item(uow: UnitOfWork, source: str, item: ImportedItem) -> ImportOutcome:
    number = uow.foreign_ids.find(source, item.kind, item.foreign_id)
    outcome = "created" if number is None else "known"
    try:
        with uow.savepoint():
            if number is None:
                number = _create(uow, source, item)
                uow.foreign_ids.add(source, item.kind, item.foreign_id, number)
            return ImportOutcome(item.foreign_id, outcome, number, _add_comments(uow, source, item, number))
    except TaskNotFound:
        # A person deleted it here, and an import does not undo that.
        return ImportOutcome(item.foreign_id, "deleted", number)
    except ClientError as error:
        return ImportOutcome(item.foreign_id, "rejected", None, reason=error.message)


def _create(uow: UnitOfWork, source: str, item: ImportedItem) -> int:
    if item.kind == "epic":
        return epics.create_epic(uow, item.title, item.description, None, None).id
    task = tasks.create_task(
        uow,
        title=item.title,
        description=item.description,
        epic=None if item.epic is None else uow.foreign_ids.find(source, "epic", item.epic),
        depends_on=(),
        priority=item.priority,
        state=item.state.value,
        completed_at=(item.completed_at or uow.now) if item.state is State.COMPLETED else None,
    )
    return task.number


def _add_comments(uow: UnitOfWork, source: str, item: ImportedItem, number: int) -> int:
    added = 0
    for comment in item.comments:
        foreign_id = f"{item.foreign_id}/{comment.foreign_id}"
        if uow.foreign_ids.find(source, "comment", foreign_id) is None:
            # The source is part of the name: an agent here may have the same name as a person there.
            author = f"{comment.author} ({source})"
            written = uow.tasks.add_comment(number, author, comment.body, min(comment.created_at or uow.now, uow.now))
            uow.foreign_ids.add(source, "comment", foreign_id, written)
            added += 1
    return added
