"""Find things by name: tasks, epics, agents, runs, mail and decisions, for the search field of the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from shopfloor.domain.decisions import LogFilter, format_reference
from shopfloor.domain.mail import HUMAN
from shopfloor.errors import NotFound
from shopfloor.repositories.uow import UnitOfWork

# How many of the newest things of each kind are examined. Older ones are found by their id, or by searching everything.
MAX_TASKS = 500
MAX_OTHERS = 200
MAX_DECISIONS = 20

_TASK_ID = re.compile(r"(?:task-)?(\d{1,18})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FoundThing:
    """A thing with its own page."""

    kind: str
    id: str
    title: str
    detail: str


def find_things(uow: UnitOfWork, query: str, limit: int) -> list[FoundThing]:
    """Return the things whose id, name or title has every word of the query; those that start with it come first."""
    words = query.lower().split()
    if not words:
        return []
    whole = " ".join(words)
    matches = [thing for thing in _iterate_things(uow, query.strip()) if _matches(thing, words)]
    # Sorting is stable: within a rank, the newest of each kind comes first.
    matches.sort(key=lambda thing: (whole not in (thing.id.lower(), thing.title.lower()), not _begins(thing, whole)))
    return list(dict.fromkeys(matches))[:limit]


def _matches(thing: FoundThing, words: list[str]) -> bool:
    text = f"{thing.id} {thing.title}".lower()
    return all(word in text for word in words)


def _begins(thing: FoundThing, whole: str) -> bool:
    return thing.title.lower().startswith(whole) or thing.id.lower().startswith(whole)


def _iterate_runs(uow: UnitOfWork) -> Iterator[FoundThing]:
    for run in uow.runs.list_without_crews(MAX_OTHERS):
        yield FoundThing("run", run.name, run.name, run.state.value)
    for crew in uow.crews.list_page(MAX_OTHERS):
        yield FoundThing("crew", crew.name, crew.name, crew.state.value)


def _iterate_things(uow: UnitOfWork, query: str) -> Iterator[FoundThing]:
    for agent in uow.agents.list_page(MAX_OTHERS, active=True):
        yield FoundThing("agent", agent.name, agent.name, agent.type.lower())
    yield from _iterate_runs(uow)
    for epic in uow.epics.list_page(limit=MAX_OTHERS):
        yield FoundThing("epic", f"epic-{epic.id}", epic.title, _words(epic.state.value))
    if number := _TASK_ID.fullmatch(query):
        try:
            task = uow.tasks.get(int(number[1]))
            yield FoundThing("task", f"task-{task.number}", task.title, _words(task.state.value))
        except NotFound:
            pass
    for task in uow.tasks.list_page(limit=MAX_TASKS, newest_first=True):
        yield FoundThing("task", f"task-{task.number}", task.title, _words(task.state.value))
    for receipt in uow.mail.list_inbox(HUMAN, "all", limit=MAX_OTHERS):
        yield FoundThing("mail", f"mail-{receipt.mail.id}", receipt.mail.subject, f"from {receipt.mail.sender.name}")
    # The log search matches any text of a decision; the title then decides.
    entries, _ = uow.decisions.search(LogFilter(outcome="decision", text=query), MAX_DECISIONS)
    # Several agents may log the same decision: the newest stands for all.
    newest = {entry.decision: entry for entry in reversed(entries)}
    for entry in reversed(newest.values()):
        yield FoundThing("decision", format_reference(entry.reference), entry.decision, entry.subject.partition(":")[2])


def _words(state: str) -> str:
    return state.lower().replace("_", " ")
