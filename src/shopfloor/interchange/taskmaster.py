"""Task Master: tasks with subtasks under tags, in one JSON file (`.taskmaster/tasks/tasks.json`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from shopfloor.errors import InvalidInput
from shopfloor.interchange.plan import (
    BACKLOG_PRIORITY,
    DEFAULT_PRIORITY,
    ImportedState,
    Plan,
    PlanItem,
    build_plan,
    get_text,
    join_sections,
    list_objects,
    parse_json,
    read_text,
)

DEFAULT_FILE = ".taskmaster/tasks/tasks.json"
DEFAULT_TAG = "master"

_STATES: Mapping[str, ImportedState] = {
    "done": "COMPLETED",
    "completed": "COMPLETED",
    "review": "REVIEW",
    "cancelled": "CANCELLED",
}
_PRIORITIES = {"critical": 0, "high": 1, "medium": 2, "low": 3}


def read_taskmaster(path: Path) -> Plan:
    """Read the tasks of all tags. A tag becomes an epic; a task depends on its subtasks."""
    found = parse_json(read_text(path), str(path))
    if not isinstance(found, dict):
        raise InvalidInput(f"{path} is not a Task Master file: it is not an object", field="file")
    # Before Task Master had tags, the tasks were at the top level.
    tags = {DEFAULT_TAG: found} if isinstance(found.get("tasks"), list) else found
    items: list[PlanItem] = []
    for tag, content in tags.items():
        if not isinstance(content, dict) or not list_objects(content.get("tasks")):
            continue
        metadata = content.get("metadata")
        description = get_text(metadata, "description") if isinstance(metadata, dict) else ""
        items.append(PlanItem(id=tag, title=f"Task Master: {tag}", kind="epic", description=description))
        for task in list_objects(content["tasks"]):
            items += _to_items(tag, task, {str(each.get("id")) for each in list_objects(content["tasks"])})
    if not items:
        raise InvalidInput(f"{path} is not a Task Master file: it has no tasks", field="file")
    return build_plan(items)


def _to_items(tag: str, task: Mapping[str, Any], others: set[str]) -> Iterator[PlanItem]:
    number = str(task.get("id"))
    subtasks = list_objects(task.get("subtasks"))
    siblings = {str(each.get("id")) for each in subtasks}
    children = [f"{number}.{each.get('id')}" for each in subtasks]
    for subtask, id in zip(subtasks, children, strict=True):
        # A bare number names a sibling if there is one, otherwise a task.
        wanted = [
            f"{number}.{each}" if each in siblings else each
            for each in _list_dependencies(subtask)
            if each in siblings or each in others or "." in each
        ]
        yield _to_item(tag, id, subtask, wanted, get_text(task, "priority"))
    yield _to_item(tag, number, task, [*_list_dependencies(task), *children], "")


def _to_item(
    tag: str, number: str, task: Mapping[str, Any], depends_on: list[str], inherited_priority: str
) -> PlanItem:
    status = get_text(task, "status")
    priority = _PRIORITIES.get(get_text(task, "priority") or inherited_priority, DEFAULT_PRIORITY)
    return PlanItem(
        id=f"{tag}/{number}",
        title=get_text(task, "title"),
        description=join_sections(
            ("", get_text(task, "description")),
            ("Details", get_text(task, "details")),
            ("Test strategy", get_text(task, "testStrategy")),
        ),
        state=_STATES.get(status, "PENDING"),
        priority=BACKLOG_PRIORITY if status == "deferred" else priority,
        epic=tag,
        depends_on=tuple(f"{tag}/{each}" for each in depends_on),
    )


def _list_dependencies(task: Mapping[str, Any]) -> list[str]:
    given = task.get("dependencies")
    return [str(each) for each in given if isinstance(each, int | str)] if isinstance(given, list) else []
