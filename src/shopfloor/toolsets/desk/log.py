"""Tools that read the log of calls and decisions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field
from pydantic_core import to_json

from shopfloor.domain.decisions import Entry, LogFilter, format_reference, parse_context, parse_reference
from shopfloor.domain.pagination import DEFAULT_PAGE_ROWS, format_cursor, parse_number_cursor
from shopfloor.domain.times import format_iso, format_iso_or_none, parse_moment
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases import decisions, seals
from shopfloor.usecases.external import ExternalContext

MAX_SUMMARY_CHARACTERS = 240
# Fields that say what a response is about, in the order of the summary.
SUMMARY_FIELDS = (
    *("id", "taskId", "mailId", "epicId", "title", "subject", "state", "status", "answer", "message", "path"),
)
# Input fields that say what a call was about, for responses that do not.
INPUT_FIELDS = ("path", "query", "pattern", "subject", "body", "message", "name")
# Summaries that do not say what a call was about.
_BARE_SUMMARIES = ("ok", "nothing")
_ONLY_ID = re.compile(r"[a-z]+-[0-9]+")
# Size at which a page ends before its limit.
MAX_RESPONSE_BYTES = 90_000

Who = Annotated[str | None, Field(description="An agent's name, or agent:NAME, user:NAME, run:NAME, operator:operator")]
Outcome = Annotated[str | None, Field(description="ok, error, decision, open, limited, or a code", max_length=40)]
Moment = Annotated[
    str | None,
    Field(description="ISO 8601 (UTC unless it has a zone), 1h, 2 days ago, today, yesterday", max_length=40),
]
Text = Annotated[str | None, Field(description="Anywhere in the rows, case-insensitive", max_length=200)]
Task = Annotated[int | None, Field(description="Only calls about the task with this number", ge=1)]
ToolName = Annotated[
    str | None, Field(description="Only calls to this tool, or to those whose name contains it", max_length=100)
]
Reference = Annotated[str, Field(description="Such as ref-1a2b3c4d5e", min_length=1, max_length=40)]


@toolset.tool("log_search", read_only=True)
def search_log(
    uow: UnitOfWork,
    agent: Who = None,
    tool: ToolName = None,
    outcome: Outcome = None,
    task: Task = None,
    since: Moment = None,
    until: Moment = None,
    text: Text = None,
    desk: Annotated[bool, Field(description="Include calls of the desk and of runners; default false")] = False,
    full: Annotated[bool, Field(description="Return everything that is stored for a row; default false")] = False,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Json:
    """Search the log for calls and decisions, newest first."""
    is_whole_name = bool(tool) and bool(uow.decisions.list_page(limit=1, tool=tool))
    criteria = LogFilter(
        subject=None if not agent else agent if ":" in agent else f"agent:{agent}",
        # A whole name uses an index; a part matches every tool that contains it.
        tool=tool if is_whole_name else None,
        tool_part=None if is_whole_name else tool or None,
        task=task,
        outcome="RATE_LIMITED" if outcome == "limited" else outcome or None,
        since=_parse_time(since, "since", uow.now),
        until=_parse_time(until, "until", uow.now),
        text=text or None,
        desk=desk,
    )
    entries, further = uow.decisions.search(criteria, limit or DEFAULT_PAGE_ROWS, parse_number_cursor("calls", cursor))
    items: list[Json] = []
    size = 0
    for item in format_entries(uow, entries, full=full):
        size += len(to_json(item))
        if items and size > MAX_RESPONSE_BYTES:
            # The page ends early, so the next one starts after its last row.
            further = items[-1]["id"]
            break
        items.append(item)
    answer: Json = {"calls": items}
    if further is not None:
        answer["nextCursor"] = format_cursor("calls", further)
        # A filter may match none of the rows that were read. The page says how far it has searched.
        answer["searchedTo"] = further
    return answer


@toolset.tool("log_call", read_only=True)
def show_call(uow: UnitOfWork, reference: Reference) -> Json:
    """Show one call by its reference: input, response, duration, retries and the events that it caused."""
    logged = decisions.get_call(uow, parse_reference(reference))
    first, last = logged.rows[0], logged.rows[-1]
    invocation = next((row for row in logged.rows if row.kind == "invocation"), None)
    ended = next((row for row in logged.rows if row.kind in ("result", "error", "limited")), None)
    answer = ended or last
    return {
        **format_entry(answer),
        "startedAt": format_iso(first.created_at),
        "endedAt": format_iso_or_none(ended.created_at if ended else None),
        "input": parse_context(invocation.context) if invocation else None,
        "answer": parse_context(ended.context) if ended else None,
        "stack": logged.stack,
        "rows": [format_full_entry(row) for row in logged.rows],
        "events": [
            {
                "id": event.id,
                "name": event.name,
                "data": event.data,
                "at": format_iso(event.created_at),
                "deliveries": [
                    {
                        "subscriber": delivery.subscriber,
                        "state": "dead" if delivery.dead_at else "waiting",
                        "tries": delivery.event.tries,
                        "error": delivery.error,
                    }
                    for delivery in deliveries
                ],
            }
            for event, deliveries in logged.events
        ],
    }


@toolset.tool("log_verify", read_only=True, external=True, admin=True)
def verify_log(
    external: ExternalContext,
    anchor: Annotated[
        str | None,
        Field(
            description="NUMBER:DIGEST of a seal that was kept elsewhere", pattern=r"^[1-9][0-9]{0,17}:[0-9a-fA-F]{64}$"
        ),
    ] = None,
) -> Json:
    """Compare all sealed rows of the log with their seals, and name each row that was changed, removed or added."""
    found = seals.verify_log(external.read, anchor)
    return {
        "ok": not found.problems,
        "seals": found.seals,
        "rows": found.rows,
        "purgedRows": found.purged,
        "hasUnsealedRows": found.unsealed,
        "lastSeal": None if found.last is None else f"{found.last.number}:{found.last.digest.hex()}",
        "problems": found.problems,
    }


def format_entry(entry: Entry) -> Json:
    """Return a row as timelines show it."""
    return {
        "id": entry.id,
        "reference": format_reference(entry.reference),
        "kind": entry.kind,
        "outcome": entry.outcome,
        "agent": entry.subject,
        "by": entry.actor,
        "toolset": entry.toolset,
        "tool": entry.tool,
        "summary": _summarize_entry(entry),
        "task": entry.task,
        "ms": None if entry.duration is None else round(entry.duration / 1000, 1),
        "retries": entry.retries,
        "count": entry.count,
        "at": format_iso(entry.created_at),
    }


def format_entries(uow: UnitOfWork, entries: Sequence[Entry], *, full: bool = False) -> list[Json]:
    """Return rows as timelines show them. If the response says nothing or only an id, the input says more."""
    items = [format_full_entry(entry) if full else format_entry(entry) for entry in entries]
    bare = {
        entry.reference: item
        for entry, item in zip(entries, items, strict=True)
        if entry.kind == "result" and (item["summary"] in _BARE_SUMMARIES or _ONLY_ID.fullmatch(item["summary"]))
    }
    for reference, text in uow.decisions.find_inputs(list(bare)).items():
        summary, about = bare[reference]["summary"], _summarize_input(text)
        if about and summary not in _BARE_SUMMARIES:
            about = f"{summary} · {about}"
        bare[reference]["summary"] = about[:MAX_SUMMARY_CHARACTERS] or summary
    return items


def format_full_entry(entry: Entry) -> Json:
    """Return a row with everything that is stored, except the stack."""
    return {
        **format_entry(entry),
        "decision": entry.decision,
        "reasoning": entry.reasoning,
        "context": parse_context(entry.context),
    }


def _summarize_entry(entry: Entry) -> str:
    if entry.kind == "manual":
        return entry.decision[:MAX_SUMMARY_CHARACTERS]
    if entry.kind == "error":
        found = parse_context(entry.context)
        message = str(found.get("message", entry.context)) if isinstance(found, dict) else entry.context
        return message[:MAX_SUMMARY_CHARACTERS]
    if entry.kind == "limited":
        return f"{entry.count} calls over the limit"
    if entry.kind == "result":
        return _summarize_response(parse_context(entry.context))[:MAX_SUMMARY_CHARACTERS]
    if entry.kind == "recovery":
        # Such as "task-3 is PENDING again" or "task-3 has failed".
        task, _, outcome = entry.decision.split(" ", 2)
        return f"{task} · {outcome.lower()}: {entry.reasoning}"[:MAX_SUMMARY_CHARACTERS]
    return _summarize_input(entry.context) or entry.context[:MAX_SUMMARY_CHARACTERS]


def _summarize_response(response: Any) -> str:
    """Summarize what a call returned: ids, titles and states, and counts."""
    data = response.get("data", response) if isinstance(response, dict) else response
    if not isinstance(data, dict):
        return "nothing" if data in (None, [], "") else str(data)
    parts = _collect_fields(data)
    if not parts and (inner := next((value for value in data.values() if isinstance(value, dict)), None)):
        # One thing with additional facts, such as a claimed task and its fence.
        parts = _collect_fields(inner)
    if not parts and isinstance(data.get("reason"), str):
        # Why there is nothing, such as no task to claim.
        parts = [data["reason"]]
    if not parts:
        # The result of a list call; the parts of a single thing are not worth counting.
        parts = [_count(value, name) for name, value in data.items() if isinstance(value, list)]
    return " · ".join(dict.fromkeys(parts)) or ("nothing" if not any(data.values()) else "ok")


def _summarize_input(text: str) -> str:
    """Return what a call was about: the file that it read, the words that it searched for, or the text that it wrote."""
    given = parse_context(text)
    if not isinstance(given, dict):
        return ""
    about = next((given[name] for name in INPUT_FIELDS if isinstance(given.get(name), str) and given[name]), "")
    return " ".join(about.split())[:MAX_SUMMARY_CHARACTERS]


def _count(items: list[Any], name: str) -> str:
    return f"{len(items)} {name.removesuffix('s') if len(items) == 1 else name}"


def _collect_fields(data: Json) -> list[str]:
    return [
        _format_field(name, data[name]) for name in SUMMARY_FIELDS if isinstance(data.get(name), str) and data[name]
    ]


def _format_field(name: str, text: str) -> str:
    """Return a state such as IN_PROGRESS as words, and any other text unchanged."""
    return text.replace("_", " ").lower() if name in ("state", "status") else text


def _parse_time(text: str | None, field: str, now: int) -> int | None:
    return parse_moment(text, now, field) if text else None
