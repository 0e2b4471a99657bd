"""The project's memory as a person looks at it: what is found and why, how fresh it is, what is used and learned."""

from __future__ import annotations

from dataclasses import dataclass

from shopfloor.domain.index import Hit
from shopfloor.domain.knowledge import DISCOVERY_TYPES, Discovery
from shopfloor.domain.ranking import Reasons, reasons
from shopfloor.gateways.files import Files
from shopfloor.repositories.work import Outside, Work
from shopfloor.usecases import knowledge
from shopfloor.usecases.knowledge import Overview, Result, Searched

LEARNED = 20


@dataclass(frozen=True, slots=True)
class Explained:
    """What a search found, each result with what spoke for it."""

    searched: Searched
    results: list[tuple[Result, Reasons | None]]


@dataclass(frozen=True, slots=True)
class Memory:
    """The index and what is kept beside it."""

    overview: Overview
    learned: list[tuple[Discovery, tuple[str, ...]]]


def memory(outside: Outside) -> Memory:
    """How fresh the index is, what is read most, and what was learned last, with the files that changed since."""

    def learned(work: Work) -> list[tuple[Discovery, tuple[str, ...]]]:
        found = [each for type in DISCOVERY_TYPES for each in work.discoveries.newest(type, LEARNED)]
        found.sort(key=lambda each: -each.created_at)
        return [(each, knowledge.changed_files(work, outside.the(Files), each)) for each in found[:LEARNED]]

    return Memory(knowledge.overview(outside), outside.read(learned))


def explain(outside: Outside, query: str, limit: int) -> Explained:
    """A search over everything, and why each result stands where it stands."""
    searched = knowledge.search(outside, query, "all", None, limit)
    gathered = knowledge.gathered(outside, query, "all", None)
    hits = {_key(hit): hit for hit in (*gathered.by_words, *gathered.by_meaning, *gathered.defining)}

    def spoken(result: Result) -> Reasons | None:
        refs = [(result.path, result.start_line)] if result.source == "code" else [
            (result.id, None), (result.id.rpartition("-")[2], None)
        ]  # fmt: skip
        hit = next((hits[key] for ref, line in refs if (key := (result.source, ref, line)) in hits), None)
        if hit is None:
            return None
        return reasons(query, hit, gathered.by_words, gathered.by_meaning, gathered.defining, gathered.circumstances)

    return Explained(searched, [(result, spoken(result)) for result in searched.results])


def _key(hit: Hit) -> tuple[str, str | None, int | None]:
    return hit.source, hit.ref, hit.start_line if hit.source == "code" else None
