"""Tools that look into the project's memory."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.ranking import Reasons
from shopfloor.domain.times import iso
from shopfloor.repositories.work import Outside
from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.manners import toolset
from shopfloor.usecases import memory
from shopfloor.usecases.knowledge import Result

FOUND = 20
EXCERPT = 600

Query = Annotated[
    str, Field(description="A symbol, words or a question, 1-500 characters", min_length=1, max_length=500)
]


@toolset.tool("memory_search", read_only=True, outside=True)
def search(outside: Outside, query: Query) -> Json:
    """Search code, notes, decisions, tasks and mail at once, and say why each result stands where it stands."""
    explained = memory.explain(outside, query, FOUND)
    searched = explained.searched
    return {
        "results": [_result(result, reasons) for result, reasons in explained.results],
        "total": searched.total,
        "ms": searched.milliseconds,
        "byMeaning": searched.by_meaning,
    }


@toolset.tool("memory_show", read_only=True, outside=True)
def show(outside: Outside) -> Json:
    """How fresh the index is, what is read most, and what was learned last."""
    seen = memory.memory(outside)
    overview = seen.overview
    return {
        "index": {
            "files": overview.freshness.files,
            "changed": overview.freshness.changed,
            "percentage": overview.freshness.percentage,
            "complete": overview.freshness.complete,
        },
        "languages": dict(overview.languages[:12]),
        "modules": dict(overview.modules[:12]),
        "mostUsed": [{"path": path, "count": count, "at": iso(at)} for path, count, at in overview.most_used],
        "discoveries": [
            {
                "id": f"discovery-{each.id}",
                "type": each.type,
                "content": each.content,
                "module": each.module,
                "author": each.author,
                "at": iso(each.created_at),
                "supersededBy": None if each.superseded_by is None else f"discovery-{each.superseded_by}",
                "changedFiles": list(changed),
            }
            for each, changed in seen.learned
        ],
    }


def _result(result: Result, reasons: Reasons | None) -> Json:
    return {
        "id": result.id,
        "source": result.source,
        "type": result.type,
        "content": result.content[:EXCERPT],
        "module": result.module,
        "session": result.session,
        "path": result.path,
        "startLine": result.start_line,
        "endLine": result.end_line,
        "date": iso(result.date),
        "score": result.score,
        "supersededBy": result.superseded_by,
        "changedFiles": list(result.changed_files),
        "why": None
        if reasons is None
        else {
            "words": reasons.words,
            "vectors": reasons.vectors,
            "defines": reasons.defines,
            "rules": round(reasons.rules, 2),
        },
    }
