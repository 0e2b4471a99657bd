"""Spec Kit: `tasks.md` of a feature, with numbered tasks (`- [ ] T001 [P] [US1] Title`) in phases."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from shopfloor.errors import InvalidInput
from shopfloor.interchange.plan import Plan, PlanItem, build_plan, read_text

_FEATURE = re.compile(r"#\s+Tasks:\s*(.+)$")
_PHASE = re.compile(r"##\s+(Phase\s.+)$")
_SECTION = re.compile(r"##\s")
_TASK = re.compile(r"\s*[-*]\s+\[([ xX])\]\s+(T\d+[a-z]?)\s+(.+)$")
_TAGS = re.compile(r"((?:\[(?:P|US\d+)\]\s*)*)(.*)$")
_DEPENDS = re.compile(r"\(depends on ([^)]*)\)", re.IGNORECASE)
_STORY = re.compile(r"user story", re.IGNORECASE)
_PRIORITY = re.compile(r"priority:\s*P(\d)", re.IGNORECASE)


@dataclass(slots=True)
class _Phase:
    title: str
    tasks: list[str]
    """All tasks of the phase so far."""
    last: list[str]
    """The tasks that a task without [P] waits for: those since the previous one without [P], and that one."""
    barrier: str | None = None
    """The last task without [P]."""

    @property
    def is_story(self) -> bool:
        return _STORY.search(self.title) is not None


def read_speckit(path: Path) -> Plan:
    """Read the tasks of a feature, which becomes an epic.

    Spec Kit defines the order in prose: phases follow each other, user stories need only the phases before the first
    story, and a task with [P] runs in parallel with its neighbours.
    """
    feature = path.resolve().parent.name
    title = feature
    phases = [_Phase("", [], [])]
    items: list[PlanItem] = []
    for line in read_text(path).splitlines():
        if match := _FEATURE.match(line):
            title = match[1].strip()
        elif _SECTION.match(line):
            phase = _PHASE.match(line)
            phases.append(_Phase(phase[1].strip() if phase else "", [], []))
        elif match := _TASK.match(line):
            items.append(_to_item(feature, match[1], match[2], match[3], phases))
    if not items:
        raise InvalidInput(f"{path} is not a Spec Kit tasks.md: it has no line '- [ ] T001 …'", field="file")
    return build_plan([PlanItem(id=feature, title=title, kind="epic"), *items])


def _to_item(feature: str, mark: str, number: str, text: str, phases: list[_Phase]) -> PlanItem:
    phase = phases[-1]
    match = _TAGS.match(text)
    assert match is not None  # every part of the pattern may be empty
    tags, title = match.groups()
    named = [each for found in _DEPENDS.findall(title) for each in re.findall(r"T\d+[a-z]?", found)]
    if "[P]" in tags:
        waits_for = [phase.barrier] if phase.barrier else []
        phase.last.append(number)
    else:
        waits_for = phase.last
        phase.last, phase.barrier = [number], number
    phase.tasks.append(number)
    if not waits_for:
        waits_for = _list_needed(phase, phases[:-1])
    priority = _PRIORITY.search(phase.title)
    return PlanItem(
        id=f"{feature}/{number}",
        title=title.strip(),
        description=phase.title,
        state="PENDING" if mark == " " else "COMPLETED",
        priority=min(int(priority[1]), 4) if priority else 1,
        epic=feature,
        depends_on=tuple(f"{feature}/{each}" for each in dict.fromkeys([*waits_for, *named])),
    )


def _list_needed(phase: _Phase, before: list[_Phase]) -> list[str]:
    """Return the last tasks of the phases that must be done before a phase starts."""
    done = [each for each in before if each.tasks and not (phase.is_story and each.is_story)]
    if not done:
        return []
    # Phases that are not stories follow each other, so the last one covers those before it.
    chain = [each for each in done if not each.is_story][-1:]
    stories = [] if phase.is_story else [each for each in done if each.is_story]
    return [number for each in [*chain, *stories] for number in each.last]
