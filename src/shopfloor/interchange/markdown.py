"""Markdown: a checklist under headings. A heading becomes an epic, an entry a task, an indented entry a subtask."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shopfloor.errors import InvalidInput
from shopfloor.interchange.plan import ImportedState, Plan, PlanItem, build_plan, read_text

_HEADING = re.compile(r"#{1,6}\s+(.+?)\s*#*$")
_ENTRY = re.compile(r"(\s*)[-*+]\s+\[(.)\]\s+(.+)$")
_FENCE = re.compile(r"\s*(```|~~~)")
_STATES: Mapping[str, ImportedState] = {"x": "COMPLETED", "X": "COMPLETED", "-": "CANCELLED"}
_MARKS = {"COMPLETED": "x", "CANCELLED": "-"}
_TAB = " " * 4


@dataclass(slots=True)
class _Entry:
    indent: int
    mark: str
    title: str
    epic: str | None
    lines: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)


def read_markdown(path: Path) -> Plan:
    """Read the checklists of a file."""
    epics: dict[str, PlanItem] = {}
    items: list[PlanItem] = []
    used: dict[str, int] = {}
    for id, entry in _list_entries(read_text(path), path.name, used, epics):
        items.append(
            PlanItem(
                id=id,
                title=entry.title,
                description="\n".join(entry.lines).strip(),
                state=_STATES.get(entry.mark, "PENDING"),
                epic=entry.epic,
                depends_on=tuple(entry.children),
            )
        )
    if not items:
        raise InvalidInput(f"{path} has no checklist: write entries as '- [ ] Title'", field="file")
    used_epics = {item.epic for item in items}
    return build_plan([*(epic for epic in epics.values() if epic.id in used_epics), *items])


def write_markdown(title: str, epics: Iterable[Mapping[str, Any]], tasks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a document: a heading per epic, its tasks as a checklist with descriptions and comments."""
    by_epic: dict[int | None, list[Mapping[str, Any]]] = {}
    for task in tasks:
        by_epic.setdefault(task["epic"], []).append(task)
    yield f"# {title}"
    for epic in epics:
        yield from ("", f"## {_to_line(epic['title'])}", "", f"`epic-{epic['number']}` · {_to_words(epic['state'])}")
        if epic["description"].strip():
            yield from ("", epic["description"].strip())
        yield from _list_lines(by_epic.get(epic["number"], []))
    if without := by_epic.get(None):
        yield from ("", "## Tasks without an epic")
        yield from _list_lines(without)


def _list_entries(
    text: str, file: str, used: dict[str, int], epics: dict[str, PlanItem]
) -> Iterator[tuple[str, _Entry]]:
    """Yield the entries, subtasks before the task that contains them."""
    epic: str | None = None
    open_entries: list[tuple[str, _Entry]] = []
    fenced = False
    for line in text.expandtabs(len(_TAB)).splitlines():
        fenced ^= bool(_FENCE.match(line))
        if not fenced and (heading := _HEADING.match(line)):
            yield from reversed(open_entries)
            open_entries = []
            epic = _build_id(used, file, "heading", heading[1])
            epics[epic] = PlanItem(id=epic, title=heading[1], kind="epic")
        elif not fenced and (match := _ENTRY.match(line)):
            indent = len(match[1])
            while open_entries and open_entries[-1][1].indent >= indent:
                yield open_entries.pop()
            id = _build_id(used, file, epic or "", match[3])
            if open_entries:
                open_entries[-1][1].children.append(id)
            open_entries.append((id, _Entry(indent, match[2], match[3], epic)))
        elif open_entries and (not line.strip() or line[0] == " "):
            open_entries[-1][1].lines.append(line.strip() if not fenced else line.removeprefix("  "))
        elif line.strip():
            yield from reversed(open_entries)
            open_entries = []
    yield from reversed(open_entries)


def _build_id(used: dict[str, int], *parts: str) -> str:
    """Return an id for a text without one; the same file always gives the same ids."""
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    used[digest] = used.get(digest, 0) + 1
    return digest if used[digest] == 1 else f"{digest}-{used[digest]}"


def _list_lines(tasks: list[Mapping[str, Any]]) -> Iterator[str]:
    if tasks:
        yield ""
    for task in tasks:
        facts = [f"`task-{task['number']}`", _to_words(task["state"]), f"priority {task['priority']}"]
        facts += [f"assigned to {task['assignee']}"] if task["assignee"] else []
        facts += [f"depends on {', '.join(f'`task-{number}`' for number in task['dependsOn'])}"] * bool(
            task["dependsOn"]
        )
        yield f"- [{_MARKS.get(task['state'], ' ')}] {_to_line(task['title'])}"
        yield f"  {' · '.join(facts)}"
        if task["description"].strip():
            yield from ("", *(f"  {line}".rstrip() for line in task["description"].strip().splitlines()))
        for comment in task["comments"]:
            yield ""
            yield f"  > {_to_line(comment['author'])}, {comment['createdAt']}:"
            yield from (f"  > {line}".rstrip() for line in comment["body"].splitlines())


def _to_line(text: str) -> str:
    return " ".join(text.split())


def _to_words(state: str) -> str:
    return state.lower().replace("_", " ")
