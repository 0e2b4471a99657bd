"""Tools that look into the decision log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field
from pydantic_core import to_json

from shopfloor.domain.decisions import Entry, Sought, read_context, read_reference, spell_reference
from shopfloor.domain.pages import PAGE, read_number_cursor, write_cursor
from shopfloor.domain.times import SECOND, iso, iso_or_none
from shopfloor.errors import InvalidInput
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.manners import toolset
from shopfloor.usecases import decisions
from shopfloor.usecases.decisions import Opened

SUMMARY = 240
LARGEST_SIZE = 90_000
"""Bytes at which a list ends although more rows were wanted."""

Who = Annotated[str | None, Field(description="An agent's name, or agent:NAME, user:NAME, run:NAME, operator:operator")]
Outcome = Annotated[str | None, Field(description="ok, error, decision, open, limited, or a code", max_length=40)]
Moment = Annotated[str | None, Field(description="ISO 8601, with its zone or in UTC", max_length=40)]
Text = Annotated[str | None, Field(description="Anywhere in the rows, case not regarded", max_length=200)]
Task = Annotated[int | None, Field(description="Only calls about this task, by its number", ge=1)]
ToolName = Annotated[str | None, Field(description="Only calls of this tool", max_length=100)]
Reference = Annotated[str, Field(description="Such as ref-1a2b3c4d5e", min_length=1, max_length=40)]


@toolset.tool("log_search", read_only=True)
def search(
    work: Work,
    agent: Who = None,
    tool: ToolName = None,
    outcome: Outcome = None,
    task: Task = None,
    since: Moment = None,
    until: Moment = None,
    text: Text = None,
    desk: Annotated[bool, Field(description="Also the calls by which the desk looks; default false")] = False,
    full: Annotated[bool, Field(description="Everything that a row keeps; default false")] = False,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Json:
    """Calls and decisions of the log that fit, newest first."""
    sought = Sought(
        subject=None if not agent else agent if ":" in agent else f"agent:{agent}",
        tool=tool or None,
        task=task,
        outcome=_outcome(outcome),
        since=_moment(since, "since"),
        until=_moment(until, "until"),
        text=text or None,
        desk=desk,
    )
    entries, further = work.decisions.search(sought, limit or PAGE, read_number_cursor("calls", cursor))
    items: list[Json] = []
    size = 0
    for entry in entries:
        item = whole(entry) if full else brief(entry)
        size += len(to_json(item))
        if items and size > LARGEST_SIZE:
            further = items[-1]["id"]
            break
        items.append(item)
    answer: Json = {"calls": items}
    if further is not None:
        answer["nextCursor"] = write_cursor("calls", further)
        answer["searchedTo"] = further
    return answer


@toolset.tool("log_call", read_only=True)
def call(work: Work, reference: Reference) -> Json:
    """One call by its reference: input, answer, duration, retries, and what followed from it."""
    return _opened(decisions.opened(work, read_reference(reference)))


def brief(entry: Entry) -> Json:
    """A row as a timeline shows it."""
    return {
        "id": entry.id,
        "reference": spell_reference(entry.reference),
        "kind": entry.kind,
        "outcome": entry.outcome,
        "agent": entry.subject,
        "by": entry.actor,
        "toolset": entry.toolset,
        "tool": entry.tool,
        "summary": _summary(entry),
        "task": entry.task,
        "ms": None if entry.duration is None else round(entry.duration / 1000, 1),
        "retries": entry.retries,
        "count": entry.count,
        "at": iso(entry.created_at),
    }


def whole(entry: Entry) -> Json:
    """A row with everything it keeps, except the stack."""
    return {
        **brief(entry),
        "decision": entry.decision,
        "reasoning": entry.reasoning,
        "context": read_context(entry.context),
    }


def _opened(opened: Opened) -> Json:
    first, last = opened.rows[0], opened.rows[-1]
    invocation = next((row for row in opened.rows if row.kind == "invocation"), None)
    ended = next((row for row in opened.rows if row.kind in ("result", "error", "limited")), None)
    answer = ended or last
    return {
        **brief(answer),
        "startedAt": iso(first.created_at),
        "endedAt": iso_or_none(ended.created_at if ended else None),
        "input": read_context(invocation.context) if invocation else None,
        "answer": read_context(ended.context) if ended else None,
        "stack": opened.stack,
        "rows": [whole(row) for row in opened.rows],
        "events": [
            {
                "id": told.id,
                "name": told.name,
                "data": told.data,
                "at": iso(told.created_at),
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
            for told, deliveries in opened.events
        ],
    }


def _summary(entry: Entry) -> str:
    if entry.kind == "manual":
        return entry.decision[:SUMMARY]
    if entry.kind == "error":
        return _message(entry.context)[:SUMMARY]
    if entry.kind == "limited":
        return f"{entry.count} calls over the limit"
    return entry.context[:SUMMARY]


def _message(context: str) -> str:
    found = read_context(context)
    return str(found.get("message", context)) if isinstance(found, dict) else context


def _outcome(outcome: str | None) -> str | None:
    if not outcome:
        return None
    return "RATE_LIMITED" if outcome == "limited" else outcome


def _moment(text: str | None, field: str) -> int | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"'{text}' is not a time; write 2026-03-01T09:00Z", field=field) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * SECOND)
