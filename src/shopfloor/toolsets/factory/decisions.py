"""Tools of the decision log."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from shopfloor.domain.decisions import Entry, format_reference, parse_context
from shopfloor.domain.ids import parse_task_id
from shopfloor.domain.pagination import fetch_size, parse_number_cursor, to_page
from shopfloor.domain.times import format_iso
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.factory.arguments import AgentId, OneLine, TaskId
from shopfloor.toolsets.factory.contract import toolset
from shopfloor.usecases import decisions

LOG_DECISION = "mcp__system__log_decision"
MAX_CONTEXT_CHARS = 2000

Title = Annotated[
    str, Field(description="What was decided, in one line (1-500 characters)", min_length=1, max_length=500), OneLine
]
Body = Annotated[str, Field(description="Why, and what follows from it", max_length=65536)]


@toolset.tool(LOG_DECISION)
def log_decision(uow: UnitOfWork, title: Title, body: Body) -> Json:
    """Log a decision in the history of your task, so that the team can follow it later."""
    number = decisions.log_decision(uow, toolset.name, LOG_DECISION, title, body)
    return {"logId": f"log-{number}", "timestamp": format_iso(uow.now)}


@toolset.tool("mcp__system__list_decisions", read_only=True)
def list_decisions(
    uow: UnitOfWork,
    agent_id: AgentId | None = None,
    tool_name: Annotated[str, Field(description="Only calls of this tool", max_length=64)] | None = None,
    task_id: TaskId | None = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Json:
    """Read the decision log, newest first: every call and every logged decision. Orchestrators see their own."""
    rows = decisions.list_decisions(
        uow,
        agent=agent_id,
        tool=tool_name,
        task=None if task_id is None else parse_task_id(task_id),
        limit=fetch_size(limit),
        before=parse_number_cursor("decisions", cursor),
    )
    return to_page("decisions", rows, limit, _format_entry, lambda entry: entry.id)


def _format_entry(entry: Entry) -> Json:
    context: Any = parse_context(entry.context)
    if entry.kind == "error" and entry.code == "INTERNAL_ERROR":
        # Agents get a reference, not the cause: a stack is for people, who find it by the reference.
        message, reference = "An unexpected error occurred", format_reference(entry.reference)
        context = {"message": message, "code": entry.code, "reference": reference}
    elif len(entry.context) > MAX_CONTEXT_CHARS:
        context = {"truncated": True, "size": len(entry.context), "head": entry.context[: MAX_CONTEXT_CHARS // 2]}
    return {
        "id": f"log-{entry.id}",
        "agentId": entry.subject.removeprefix("agent:"),
        "decision": entry.decision,
        "reasoning": entry.reasoning[:MAX_CONTEXT_CHARS],
        "context": context,
        "createdAt": format_iso(entry.created_at),
        "kind": entry.kind,
        **({"actor": entry.actor} if entry.actor != entry.subject else {}),
        **({"count": entry.count} if entry.count > 1 else {}),
    }
