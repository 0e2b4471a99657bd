"""Searches for the uses of a name, and overviews of the project and of the index."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from shopfloor.domain.discoveries import DISCOVERY_TYPES, Discovery
from shopfloor.domain.index import Freshness, Scope
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.search import references
from shopfloor.search.outdated import find_changed_files
from shopfloor.search.results import Result, mark_result
from shopfloor.usecases.external import ExternalContext

LOG_PREFIX = "log-"
MAX_DEFINITIONS = 10
MOST_USED_FILES = 10
SHOWN_RULES = 20
RECENT_DISCOVERIES = 20


@dataclass(frozen=True, slots=True)
class ProjectSummary:
    """The project at a glance."""

    freshness: Freshness
    languages: list[tuple[str, int]]
    modules: list[tuple[str, int]]
    roles: list[tuple[str, int]]
    most_used: list[tuple[str, int, int]]
    rules: list[Discovery]


@dataclass(frozen=True, slots=True)
class Usages:
    """The places that use a name, on one page, and where it is defined."""

    results: list[Result]
    total: int
    has_more: bool
    is_complete: bool
    definitions: list[str]
    milliseconds: int


def find_usages(
    external: ExternalContext,
    name: str,
    kind: str,
    scope: Scope,
    limit: int,
    *,
    earlier: Collection[str] = (),
    unseen: bool = False,
) -> Usages:
    """Find where a name is used or, with the kind CALL, what calls it, in the current files.

    `earlier` are the marks of results on earlier pages, which are skipped.
    """
    began = time.monotonic()
    paths, searched_all = external.gateways.grep.find_files_with_word(name, external.is_abandoned)
    found = references.find_references(external.gateways.files, paths, name, kind, scope, external.is_abandoned)
    results = [_usage_to_result(each) for each in found.uses]
    if unseen:
        results = [each for each in results if not external.search.shown.includes(external.session, each)]
    new = [each for each in results if mark_result(each) not in earlier]
    return Usages(
        results=new[:limit],
        total=len(results),
        has_more=len(new) > limit,
        is_complete=searched_all and found.is_complete,
        definitions=found.definitions[:MAX_DEFINITIONS],
        milliseconds=round((time.monotonic() - began) * 1000),
    )


def _usage_to_result(use: references.Use) -> Result:
    first, last = use.lines[0], use.lines[-1]
    return Result(
        id=f"{use.path}#L{first}-L{last}",
        source="code",
        type=use.role,
        content=use.content if use.count == len(use.lines) else f"{use.content}\n… {use.count} in all",
        module=use.module,
        session=None,
        date=use.modified,
        score=1.0,
        path=use.path,
        start_line=first,
        end_line=last,
        title=use.symbol or use.path,
        symbol=use.symbol,
        why=use.kinds,
    )


def summarize_project(external: ExternalContext) -> ProjectSummary:
    """Return languages, modules, the most used files and the rules of the project, after a refresh of the index."""
    freshness = external.search.refresh(external)

    def read(uow: UnitOfWork) -> ProjectSummary:
        return ProjectSummary(
            freshness=freshness,
            languages=uow.index.count_by("language"),
            modules=uow.index.count_by("module"),
            roles=uow.index.count_by("role"),
            most_used=uow.file_accesses.most_used(MOST_USED_FILES),
            rules=uow.discoveries.newest("rule", SHOWN_RULES),
        )

    return external.read(read)


def list_recent_discoveries(external: ExternalContext) -> list[tuple[Discovery, tuple[str, ...]]]:
    """Return the latest valid discoveries, each with its files that changed since it was recorded."""

    def read(uow: UnitOfWork) -> list[tuple[Discovery, tuple[str, ...]]]:
        discoveries = [each for type in DISCOVERY_TYPES for each in uow.discoveries.newest(type, RECENT_DISCOVERIES)]
        discoveries.sort(key=lambda each: -each.created_at)
        latest = discoveries[:RECENT_DISCOVERIES]
        return [(each, find_changed_files(uow, external.gateways.files, each)) for each in latest]

    return external.read(read)


def find_references(uow: UnitOfWork, ids: Sequence[str]) -> dict[str, int]:
    """Return, for those of the results that are decisions, the references of the calls that logged them."""
    numbers = [int(id.removeprefix(LOG_PREFIX)) for id in ids if id.startswith(LOG_PREFIX)]
    return {f"{LOG_PREFIX}{entry.id}": entry.reference for entry in uow.decisions.find_many(numbers)}
