"""Tools for imports from other trackers, and exports to them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from shopfloor.domain.epics import Epic
from shopfloor.domain.pagination import fetch_size, parse_number_cursor, to_page
from shopfloor.domain.tasks import State, Task
from shopfloor.domain.times import SECOND, format_iso, format_iso_or_none
from shopfloor.errors import InvalidInput
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit, to_camel
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases import imports

MAX_ITEMS = 100
MAX_DEPENDENCIES = 500
MAX_COMMENTS = 10_000

Source = Annotated[
    str, Field(description="Name of the other tracker, such as beads", min_length=1, max_length=40, pattern="^[a-z-]+$")
]
ForeignId = Annotated[str, Field(min_length=1, max_length=500)]
Moment = Annotated[str | None, Field(description="A time in ISO 8601", max_length=40)]


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, defer_build=True)


class GivenComment(_Given):
    """A comment of another tracker."""

    id: ForeignId
    author: Annotated[str, Field(min_length=1, max_length=200)]
    body: Annotated[str, Field(min_length=1, max_length=65_536)]
    created_at: Moment = None


class GivenItem(_Given):
    """An epic or a task of another tracker."""

    id: ForeignId
    kind: Literal["epic", "task"] = "task"
    title: Annotated[str, Field(min_length=1, max_length=500)]
    description: Annotated[str, Field(max_length=65_536)] = ""
    state: Literal["PENDING", "REVIEW", "COMPLETED", "CANCELLED"] = "PENDING"
    priority: Annotated[int, Field(ge=0, le=4)] = 2
    epic: ForeignId | None = None
    completed_at: Moment = None
    comments: list[GivenComment] = []


class GivenDependency(_Given):
    """A task that waits for another one."""

    task: ForeignId
    blocker: ForeignId


@toolset.tool("import_find", read_only=True)
def find_imported(
    uow: UnitOfWork,
    source: Source,
    ids: Annotated[list[ForeignId], Field(description="Ids in the other tracker", max_length=MAX_ITEMS)],
) -> Json:
    """Find items that were imported before, by their id in the other tracker."""
    found: Json = {}
    for id in ids:
        for kind in ("task", "epic"):
            if (number := uow.foreign_ids.find(source, kind, id)) is not None:
                found[id] = f"{kind}-{number}"
    return {"known": found}


@toolset.tool("import_items", idempotent=True)
def import_items(
    uow: UnitOfWork,
    source: Source,
    items: Annotated[list[GivenItem], Field(description="Epics before their tasks", max_length=MAX_ITEMS)] = [],  # noqa: B006 - the schema's default, never changed
    dependencies: Annotated[
        list[GivenDependency], Field(description="Pairs of task and blocker", max_length=MAX_DEPENDENCIES)
    ] = [],  # noqa: B006 - the same
    closed_epics: Annotated[list[ForeignId], Field(description="Epics to complete", max_length=MAX_ITEMS)] = [],  # noqa: B006 - the same
) -> Json:
    """Import epics, tasks, comments and dependencies from another tracker. Items that were imported before are not
    created again. Items and dependencies that cannot be imported are reported."""
    done = imports.import_items(uow, source, [_to_item(item) for item in items])
    added, rejected = imports.import_dependencies(uow, source, [(each.task, each.blocker) for each in dependencies])
    return {
        "items": [
            {
                "id": one.foreign_id,
                "outcome": one.outcome,
                "number": one.number,
                "comments": one.new_comments,
                **({"reason": one.reason} if one.reason else {}),
            }
            for one in done
        ],
        "dependencies": added,
        "rejectedDependencies": [
            {"task": task, "blocker": blocker, "reason": reason} for task, blocker, reason in rejected
        ],
        "closedEpics": imports.close_epics(uow, source, closed_epics),
    }


@toolset.tool("epic_export", read_only=True)
def export_epics(uow: UnitOfWork, limit: Limit = None, cursor: Cursor = None) -> Json:
    """List the epics with their full descriptions, newest first."""
    rows = uow.epics.list_page(limit=fetch_size(limit), before=parse_number_cursor("epics", cursor))
    return to_page("epics", rows, limit, _format_epic, lambda epic: epic.id)


@toolset.tool("task_export", read_only=True)
def export_tasks(uow: UnitOfWork, limit: Limit = None, cursor: Cursor = None) -> Json:
    """List the tasks of all epics by number, in full, with their dependencies and comments."""
    rows = uow.tasks.list_page(limit=fetch_size(limit), after=parse_number_cursor("tasks", cursor))
    blockers = uow.tasks.map_blockers([task.number for task in rows])
    return to_page(
        "tasks", rows, limit, lambda task: _format_task(uow, task, blockers[task.number]), lambda task: task.number
    )


def _to_item(item: GivenItem) -> imports.ImportedItem:
    comments = [
        imports.ImportedComment(each.id, each.author, each.body, _parse_moment(each.created_at))
        for each in item.comments
    ]
    return imports.ImportedItem(
        foreign_id=item.id,
        kind=item.kind,
        title=item.title,
        description=item.description,
        state=State(item.state),
        priority=item.priority,
        epic=item.epic,
        completed_at=_parse_moment(item.completed_at),
        comments=comments,
    )


def _parse_moment(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"'{text}' is not a time in ISO 8601", field="createdAt") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * SECOND)


def _format_epic(epic: Epic) -> Json:
    return {
        "number": epic.id,
        "title": epic.title,
        "description": epic.description,
        "state": epic.state.value,
        "createdAt": format_iso(epic.created_at),
        "updatedAt": format_iso(epic.updated_at),
        "completedAt": format_iso_or_none(epic.completed_at),
    }


def _format_task(uow: UnitOfWork, task: Task, blockers: list[int]) -> Json:
    return {
        "number": task.number,
        "title": task.title,
        "description": task.description or "",
        "state": task.state.value,
        "priority": task.priority,
        "epic": task.epic,
        "assignee": task.assignee,
        "dependsOn": blockers,
        "createdAt": format_iso(task.created_at),
        "updatedAt": format_iso(task.updated_at),
        "completedAt": format_iso_or_none(task.completed_at),
        "comments": [
            {"id": each.id, "author": each.author, "body": each.body, "createdAt": format_iso(each.created_at)}
            for each in uow.tasks.list_comments(task.number, MAX_COMMENTS)
        ],
    }
