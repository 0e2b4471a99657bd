"""Where written things come from: each source tells what is new, and shows what was found once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shopfloor.domain.decisions import Entry
from shopfloor.domain.index import Written
from shopfloor.domain.knowledge import Discovery
from shopfloor.repositories.work import Work


@dataclass(frozen=True, slots=True)
class Source:
    """One kind of written thing. `some` is asked again for whatever was found, so that nothing stale is shown.

    What only one principal may find carries its key as `owner`. What several may find is told once for each of
    them, under a `ref` of its own.
    """

    name: str
    changed_since: Callable[[Work, int, int], list[Written]]
    some: Callable[[Work, Sequence[str]], list[Written]]


def discovery(found: Discovery) -> Written:
    return Written(
        source="discovery",
        ref=str(found.id),
        id=f"discovery-{found.id}",
        type=found.type,
        title="",
        text=found.content,
        module=found.module,
        session=found.session,
        owner=None,
        created_at=found.created_at,
        changed_at=found.created_at,
    )


def decision(entry: Entry) -> Written:
    return Written(
        source="decision",
        ref=str(entry.id),
        id=f"log-{entry.id}",
        type="decision",
        title=entry.decision,
        text=entry.reasoning,
        module=None,
        session=None,
        owner=None,
        created_at=entry.created_at,
        changed_at=entry.created_at,
    )


def _discoveries(work: Work, refs: Sequence[str]) -> list[Written]:
    return [discovery(each) for each in work.discoveries.some([int(ref) for ref in refs])]


def _decisions(work: Work, refs: Sequence[str]) -> list[Written]:
    return [decision(each) for each in work.decisions.some([int(ref) for ref in refs])]


SOURCES: list[Source] = [
    Source(
        "discovery",
        lambda work, at, limit: [discovery(each) for each in work.discoveries.changed_since(at, limit)],
        _discoveries,
    ),
    Source(
        "decision",
        lambda work, at, limit: [decision(each) for each in work.decisions.manual_since(at, limit)],
        _decisions,
    ),
]
"""What is searched beside code; tasks, mail and sessions join with a source of their own."""
