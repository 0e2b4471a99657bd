"""Activity: decisions, everyone's calls, and one call in detail."""

from __future__ import annotations

import re
from typing import Any

from shopfloor.toolkit import Json
from shopfloor.web.views.view import Given, parse_number
from shopfloor.web.visitor import Visitor

LOG_FILTERS = ("agent", "tool", "outcome", "task", "since", "until", "text", "desk")
# A task number that is never assigned: a filter by a malformed number finds nothing.
NO_SUCH_TASK = 2**62
DECISIONS_PER_PAGE = 50
CALLS_PER_PAGE = 100
# Calls with which agents poll for news. Each agent's polling is shown as one row with a count.
POLLING_TOOLS = frozenset(
    {
        "mcp__mail__wait",
        "mcp__mail__list_inbox",
        "mcp__agent__get_status",
        "mcp__agent__get_task",
        "mcp__task__list",
        "mcp__task__claim",
        "mcp__supervisor__list_agents",
        "mcp__supervisor__get_agent_status",
        "run_wait",
        "run_snapshot",
        "request_wait",
    }
)
_TERM = re.compile(r'(agent|tool|is|outcome|task|since|until):("[^"]*"|\S+)')


def parse_query(query: str) -> dict[str, str]:
    """Return the filters in a search field: `agent:x tool:y is:error since:1h`; the rest is text."""
    filters: dict[str, str] = {}
    for name, quoted in _TERM.findall(query):
        value = quoted.strip('"')
        if name == "is" and value in ("ui", "desk"):
            filters["desk"] = "1"
        elif name == "is":
            filters["outcome"] = value
        else:
            filters[name] = value
    if text := " ".join(_TERM.sub(" ", query).split()):
        filters["text"] = text
    return filters


def format_query(filters: dict[str, str]) -> str:
    """Format filters for the search field."""
    terms = []
    for name in LOG_FILTERS:
        if not (value := filters.get(name)):
            continue
        if name == "text":
            terms.append(value)
        elif name == "desk":
            terms.append("is:ui")
        else:
            term = "is" if name == "outcome" and value in ("error", "ok", "decision", "open", "limited") else name
            terms.append(f'{term}:"{value}"' if " " in value else f"{term}:{value}")
    return " ".join(terms)


def read_filters(given: Given) -> dict[str, str]:
    """Return the filters of a page: from the search field, or from a link's single parameters."""
    if (query := given.get("q")) is not None:
        return parse_query(query[:500])
    return {name: given[name] for name in LOG_FILTERS if given.get(name)}


async def load_decisions(visitor: Visitor, given: Given) -> Json:
    """Load what agents decided and why, newest first."""
    filters = read_filters(given) | {"outcome": "decision"}
    found = await _search(visitor, filters, given, full=True, limit=DECISIONS_PER_PAGE)
    filters.pop("outcome")
    return {**found, "filters": filters, "query_text": given.get("q") or format_query(filters)}


async def load_calls(visitor: Visitor, given: Given) -> Json:
    """Load the calls that match the filters, newest first; fold polling unless it is asked for."""
    filters = read_filters(given)
    found = await _search(visitor, filters, given, limit=CALLS_PER_PAGE)
    fold = given.get("polling") != "all" and "tool" not in filters
    return {
        **found,
        "rows": fold_polling(found["seen"]["calls"]) if fold else found["seen"]["calls"],
        "folded": fold,
        "filters": filters,
        "query_text": given.get("q") or format_query(filters),
    }


async def _search(visitor: Visitor, filters: dict[str, str], given: Given, **options: Any) -> Json:
    """Search the log. An error is shown beside the filters, which stay as they are."""
    asked = parse_log_filters({**filters, "cursor": given.get("cursor", "")}) | options
    answer = await visitor.call("log_search", asked)
    problem = None if answer.error is None else answer.error.message
    seen: Json = {"calls": []} if answer.error is not None else answer.body
    return {"seen": seen, "problem": problem, "cursor": given.get("cursor"), "is_live": problem is None}


def fold_polling(calls: list[Json]) -> list[Json]:
    """Return the calls, with each agent's polling with the same result as one row, the newest, with a count, and each
    decision once."""
    rows: list[Json] = []
    folded: dict[tuple[str, str, str], Json] = {}
    # The call that logged a decision adds nothing to the decision itself.
    decided = {call["reference"] for call in calls if call["outcome"] == "decision"}
    for call in calls:
        if call["outcome"] == "ok" and call["reference"] in decided:
            continue
        # The summary is part of the key: a claim that got a task is not folded with those that did not.
        key = (call["agent"], call["tool"], call.get("summary", ""))
        if call["tool"] not in POLLING_TOOLS or call["outcome"] != "ok":
            rows.append(call)
        elif key in folded:
            folded[key]["polls"] += 1
        else:
            folded[key] = {**call, "polls": 1}
            rows.append(folded[key])
    return rows


async def load_call(visitor: Visitor, given: Given) -> Json:
    """Load one call with its input, answer, events and log rows."""
    return {"call": await visitor.ask("log_call", reference=given["reference"])}


def parse_log_filters(given: Given) -> dict[str, Any]:
    """Return the filters of the log page as `log_search` takes them."""
    filters: dict[str, Any] = {name: given.get(name) for name in (*LOG_FILTERS, "cursor") if given.get(name)}
    if "task" in filters:
        filters["task"] = parse_number(filters["task"].removeprefix("task-")) or NO_SUCH_TASK
    if "desk" in filters:
        filters["desk"] = True
    return filters
