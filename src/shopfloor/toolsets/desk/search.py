"""Tools that search everything the server has stored or indexed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shopfloor.domain.decisions import format_reference
from shopfloor.domain.times import format_iso
from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases import search
from shopfloor.usecases.external import ExternalContext

RESULT_LIMIT = 20
MAX_RESULTS = 100
MAX_EXCERPT_CHARACTERS = 600

Query = Annotated[
    str, Field(description="A symbol, words or a question, 1-500 characters", min_length=1, max_length=500)
]


Source = Annotated[
    Literal["code", "task", "comment", "mail", "decision", "discovery", "session"] | None,
    Field(description="Only results of this kind"),
]
Page = Annotated[int, Field(description="1-50, each of 20 results", ge=1, le=50)]


@toolset.tool("search", read_only=True, external=True)
def search_everything(external: ExternalContext, query: Query, source: Source = None, page: Page = 1) -> Json:
    """Search code, notes, decisions, tasks and mail at once, and explain the rank of each result."""
    first = (page - 1) * RESULT_LIMIT
    # A kind is filtered from the best results of all kinds, so that its results keep their order.
    explained = external.search.explain(external, query, MAX_RESULTS if source else first + RESULT_LIMIT)
    found = explained.search
    chosen = [each for each in explained.results if source is None or each[0].source == source]
    shown = chosen[first : first + RESULT_LIMIT]
    references = external.read(lambda uow: search.find_references(uow, [result.id for result, _ in shown]))
    total = found.total if source is None else len(chosen)
    return {
        "results": [
            {
                "id": result.id,
                "source": result.source,
                "type": result.type,
                "content": result.content[:MAX_EXCERPT_CHARACTERS],
                "module": result.module,
                "session": result.session,
                "path": result.path,
                "startLine": result.start_line,
                "endLine": result.end_line,
                "date": format_iso(result.date),
                "score": result.score,
                "supersededBy": result.superseded_by,
                "changedFiles": list(result.changed_files),
                "reference": format_reference(references[result.id]) if result.id in references else None,
                "why": {
                    "words": reasons.words,
                    "vectors": reasons.embeddings,
                    "defines": reasons.defines,
                    "rules": round(reasons.rules, 2),
                },
            }
            for result, reasons in shown
        ],
        # Results that the caller may not see, or that no longer exist, count until they are loaded.
        "total": max(first + len(shown), total) if len(shown) == RESULT_LIMIT else first + len(shown),
        "first": first + 1,
        "last": first + len(shown),
        "ms": found.milliseconds,
        "byMeaning": found.by_embedding,
    }


@toolset.tool("search_overview", read_only=True, external=True)
def show_overview(external: ExternalContext) -> Json:
    """Show how fresh the index is, which files are read most, and the latest discoveries."""
    overview = search.summarize_project(external)
    return {
        "index": {
            "files": overview.freshness.files,
            "changed": overview.freshness.changed,
            "percentage": overview.freshness.percentage,
            "complete": overview.freshness.complete,
        },
        "languages": dict(overview.languages[:12]),
        "modules": dict(overview.modules[:12]),
        "mostUsed": [{"path": path, "count": count, "at": format_iso(at)} for path, count, at in overview.most_used],
        "discoveries": [
            {
                "id": f"discovery-{each.id}",
                "type": each.type,
                "content": each.content,
                "module": each.module,
                "author": each.author,
                "at": format_iso(each.created_at),
                "supersededBy": None if each.superseded_by is None else f"discovery-{each.superseded_by}",
                "changedFiles": list(changed),
            }
            for each, changed in search.list_recent_discoveries(external)
        ],
    }
