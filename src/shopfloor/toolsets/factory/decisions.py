"""Tools of the decision log."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from shopfloor.domain.decisions import Entry, read_context, spell_reference
from shopfloor.domain.ids import task_number
from shopfloor.domain.pages import listed, read_number_cursor, wanted
from shopfloor.domain.times import iso
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.factory.arguments import AgentId, TaskId, Words
from shopfloor.toolsets.factory.manners import toolset
from shopfloor.usecases import decisions

LOG_DECISION = "mcp__system__log_decision"
CONTEXT_SHOWN = 2000

Title = Annotated[
    str, Field(description="What was decided, in one line (1-500 characters)", min_length=1, max_length=500), Words
]
Body = Annotated[str, Field(description="Why, and what follows from it (at most 65536 characters)", max_length=65536)]


@toolset.tool(LOG_DECISION)
def log_decision(work: Work, title: Title, body: Body) -> Json:
    """Write a decision of yours into the log, so that the team can follow it later."""
    number = decisions.log(work, toolset.name, LOG_DECISION, title, body)
    return {"logId": f"log-{number}", "timestamp": iso(work.now)}


@toolset.tool("mcp__system__list_decisions", read_only=True)
def list_decisions(
    work: Work,
    agent_id: AgentId | None = None,
    tool_name: Annotated[str, Field(description="Calls of this tool", max_length=64)] | None = None,
    task_id: TaskId | None = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Json:
    """Read the decision log, newest first: every call and every logged decision. Orchestrators see their own."""
    rows = decisions.page(
        work,
        agent=agent_id,
        tool=tool_name,
        task=None if task_id is None else task_number(task_id),
        limit=wanted(limit),
        before=read_number_cursor("decisions", cursor),
    )
    return listed("decisions", rows, limit, _spelled, lambda entry: entry.id)


def _spelled(entry: Entry) -> Json:
    return {
        "id": f"log-{entry.id}",
        "agentId": entry.subject.removeprefix("agent:"),
        "decision": entry.decision,
        "reasoning": entry.reasoning[:CONTEXT_SHOWN],
        "context": _context(entry),
        "createdAt": iso(entry.created_at),
        **({"actor": entry.actor} if entry.actor != entry.subject else {}),
        **({"count": entry.count} if entry.count > 1 else {}),
    }


def _context(entry: Entry) -> Any:
    """What was said. Of the floor's own failures agents get a reference, nothing from the inside."""
    if entry.kind == "error" and entry.code == "INTERNAL_ERROR":
        return {
            "message": "An unexpected error occurred",
            "code": entry.code,
            "reference": spell_reference(entry.reference),
        }
    if len(entry.context) > CONTEXT_SHOWN:
        return {"truncated": True, "size": len(entry.context), "head": entry.context[: CONTEXT_SHOWN // 2]}
    return read_context(entry.context)
