"""The context toolset's manners: camelCase, plain JSON answers, refusals as {error, …}, open to everybody here."""

from __future__ import annotations

import json
from typing import Any

from shopfloor.errors import (
    BadPattern,
    EmbeddingFailed,
    ImportsUnreadable,
    InvalidInput,
    NothingIndexed,
    RateLimited,
    ShopfloorError,
    ToolNotFound,
)
from shopfloor.toolkit import Call, Json, Resource, Toolset, camel

INSTRUCTIONS = (
    "Before you work on this project's files, ask context_search what the team knows and where the code is; "
    "read_file shows a file with what it imports, grep_codebase finds exact text. "
    "What you learn that others should know, write down with record_discovery."
)

_COUNTED = ("totalFound", "totalMatches", "filesSearched", "searchTime")
_INSIDE = ("given", "rule", "field", "problems")


def as_it_is(value: Any, _: Call) -> Any:
    return value


def refuse(error: ShopfloorError, call: Call) -> Json:
    body = _spelled(error, call)
    return body | {"hint": error.hint} if error.hint else body


def _spelled(error: ShopfloorError, call: Call) -> Json:
    match error:
        case InvalidInput(facts={"field": "query", "rule": "string_too_short"}):
            return {"error": "Query must be at least 3 characters"}
        case InvalidInput(facts={"problems": problems}):
            return {"error": "Invalid parameters", "details": problems}
        case InvalidInput(facts={"rule": rule, "field": field}):
            return {
                "error": "Invalid parameters",
                "details": [{"field": field, "rule": rule, "problem": error.message}],
            }
        case InvalidInput(facts={"rule": rule}):
            return {
                "error": "Invalid parameters",
                "details": [{"field": "input", "rule": rule, "problem": error.message}],
            }
        case RateLimited(facts={"seconds": seconds}):
            return {"error": f"Rate limit exceeded for {call.name}", "tool": call.name, "retryAfter": seconds}
        case ToolNotFound():
            return {"error": f"Unknown tool: {call.name}", "tool": call.name}
        case NothingIndexed():
            return {"error": error.message, "fallback": "Use grep_codebase for text search"}
        case BadPattern() | ImportsUnreadable() | EmbeddingFailed():
            return {"error": error.message, **error.facts}
    if not error.refusal and call.name == "context_search":
        fallback = "Try using grep_codebase for text search"
        return {"error": "Search failed", "message": error.message, **error.facts, "fallback": fallback}
    facts = {key: value for key, value in error.facts.items() if key not in _INSIDE}
    return {"error": error.message, **({} if "path" in facts else {"tool": call.name}), **facts}


def summary(answer: Json) -> Json:
    """What the log keeps of an answer: others read it too, and what was found may be the caller's own mail."""
    return {key: answer[key] for key in _COUNTED if key in answer}


def slow_after(call: Call) -> float | None:
    """The contract's longest time for a tool, in seconds."""
    if call.name == "read_file":
        return 2.0 if call.arguments.get("include_deps") else 0.5
    return {"context_search": 5.0, "grep_codebase": 3.0}.get(call.name)


RESOURCES = (
    Resource(
        uri="shopfloor://project",
        name="project",
        description="The project at a glance: languages, modules, the files that are read most, and the rules that hold",
        tool="show_project",
        text=lambda answer: json.dumps(answer, indent=1, ensure_ascii=False),
    ),
    Resource(
        uri="shopfloor://discovery/{id}",
        name="discovery",
        description="One discovery, with what superseded it and which of its files changed since",
        tool="show_discovery",
        text=lambda answer: json.dumps(answer, indent=1, ensure_ascii=False),
    ),
    Resource(
        uri="shopfloor://file/{+path}",
        name="file",
        description="The content of a file, by its path below the project root",
        tool="read_file",
        text=lambda answer: str(answer["file"]["content"]),
        mime_type="text/plain",
    ),
)

toolset = Toolset(
    "context",
    answer=as_it_is,
    refuse=refuse,
    acts_as=None,
    may=lambda _, __: True,
    words=lambda error, call: str(_spelled(error, call)["error"]),
    spelling=camel,
    instructions=INSTRUCTIONS,
    summary=summary,
    slow_after=slow_after,
    resources=RESOURCES,
)
