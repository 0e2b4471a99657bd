"""Tools that search what the project knows, and add to it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shopfloor.domain.times import iso
from shopfloor.repositories.work import Outside
from shopfloor.toolkit import Json
from shopfloor.toolsets.context.manners import toolset
from shopfloor.usecases import knowledge
from shopfloor.usecases.knowledge import Overview, Result, Searched

BY_WORDS = "Found by words only: there is no model yet; a person fetches it with: shopfloor model install"
OFF = "Found by words only: embeddings are off"
NOT_YET = "Found by words only: vectors are still being made"

Query = Annotated[
    str, Field(description="Search query describing what to find (3-500 characters)", min_length=3, max_length=500)
]
Type = Annotated[
    Literal["all", "pattern", "rule", "decision", "issue"],
    Field(description="Filter by discovery type; default all, which includes code"),
]
Module = Annotated[str | None, Field(description="Filter by module name")]
Limit = Annotated[int, Field(description="Maximum number of results to return, 1-20; default 5", ge=1, le=20)]
DiscoveryType = Annotated[
    Literal["pattern", "rule", "decision", "issue"], Field(description="What it is: pattern, rule, decision or issue")
]
Content = Annotated[
    str, Field(description="What was learned, in a few sentences (1-10000 characters)", min_length=1, max_length=10_000)
]
OwnModule = Annotated[
    str | None,
    Field(description="The module it is about; default that of the first file", min_length=1, max_length=200),
]
Supersedes = Annotated[str | None, Field(description="The discovery that it replaces, such as discovery-12")]
About = Annotated[
    list[Annotated[str, Field(min_length=1)]],
    Field(
        description="Files it is about (at most 20); when they change, it is marked as perhaps outdated", max_length=20
    ),
]
DiscoveryId = Annotated[str, Field(description="The discovery, such as discovery-12", min_length=1)]


@toolset.tool("context_search", read_only=True, outside=True)
def context_search(outside: Outside, query: Query, type: Type = "all", module: Module = None, limit: Limit = 5) -> Json:
    """Search project context semantically using RAG (Retrieval-Augmented Generation) with embeddings. Returns relevant discoveries, sessions, and code snippets ranked by similarity."""
    searched = knowledge.search(outside, query, type, module, limit)
    answer: Json = {
        "results": [_result(result) for result in searched.results],
        "query": query,
        "totalFound": searched.total,
        "searchTime": searched.milliseconds,
        "index": _index(searched),
    }
    if not searched.by_meaning:
        answer["hint"] = OFF if searched.by_choice else BY_WORDS if searched.embedded is None else NOT_YET
    return answer


@toolset.tool("record_discovery", outside=True, idempotent=True)
def record_discovery(
    outside: Outside,
    type: DiscoveryType,
    content: Content,
    module: OwnModule = None,
    supersedes: Supersedes = None,
    files: About | None = None,
) -> Json:
    """Write down what you learned about the project, so that every agent finds it with context_search."""
    discovery, new = knowledge.record(outside, type, content, module, supersedes, files or [])
    answer: Json = {
        "id": f"discovery-{discovery.id}",
        "type": discovery.type,
        "content": discovery.content,
        "module": discovery.module,
        "files": list(discovery.files),
        "date": iso(discovery.created_at),
    }
    if discovery.supersedes is not None:
        answer["supersedes"] = f"discovery-{discovery.supersedes}"
    return answer if new else answer | {"message": "This was known already"}


@toolset.tool("show_discovery", read_only=True, outside=True, listed=False)
def show_discovery(outside: Outside, id: DiscoveryId) -> Json:
    """One discovery, with what superseded it and which of its files changed since."""
    discovery, changed = knowledge.show(outside, id)
    return {
        "id": f"discovery-{discovery.id}",
        "type": discovery.type,
        "content": discovery.content,
        "module": discovery.module,
        "author": discovery.author,
        "session": discovery.session,
        "date": iso(discovery.created_at),
        "files": list(discovery.files),
        "changedFiles": list(changed),
        "supersedes": _spelled(discovery.supersedes),
        "supersededBy": _spelled(discovery.superseded_by),
    }


@toolset.tool("show_project", read_only=True, outside=True, listed=False)
def show_project(outside: Outside) -> Json:
    """The project at a glance: languages, modules, the files that are read most, and the rules that hold."""
    seen: Overview = knowledge.overview(outside)
    return {
        "files": seen.freshness.files,
        "languages": dict(seen.languages),
        "modules": dict(seen.modules[:50]),
        "roles": dict(seen.roles),
        "mostUsed": [{"path": path, "count": count, "lastAccessed": iso(at)} for path, count, at in seen.most_used],
        "rules": [
            {"id": f"discovery-{rule.id}", "module": rule.module, "content": rule.content} for rule in seen.rules
        ],
    }


def _result(result: Result) -> Json:
    body: Json = {
        "id": result.id,
        "type": result.type,
        "content": result.content,
        "module": result.module,
        "session": result.session,
        "date": iso(result.date),
        "score": result.score,
        "source": result.source,
    }
    if result.path is not None:
        body |= {"path": result.path, "startLine": result.start_line, "endLine": result.end_line}
    if result.superseded_by is not None:
        body["supersededBy"] = result.superseded_by
    if result.changed_files:
        body["changedFiles"] = list(result.changed_files)
    return body


def _index(searched: Searched) -> Json:
    fresh = searched.freshness
    body: Json = {
        "complete": fresh.complete,
        "percentage": fresh.percentage,
        "files": fresh.files,
        "filesChangedSince": fresh.changed,
        "by": "words and vectors" if searched.by_meaning else "words",
    }
    if searched.embedded is not None:
        made, all_passages = searched.embedded
        body["vectorsPercentage"] = 100 if made >= all_passages else made * 100 // all_passages
    return body


def _spelled(number: int | None) -> str | None:
    return None if number is None else f"discovery-{number}"
