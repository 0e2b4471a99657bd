"""The decision log: the rows of every call, and the decisions that agents log themselves."""

from __future__ import annotations

from dataclasses import dataclass

from shopfloor.domain.decisions import Entry, format_context
from shopfloor.domain.events import DecisionLogged, StoredEvent
from shopfloor.domain.principals import SUPERVISOR, Kind
from shopfloor.domain.redaction import redact
from shopfloor.errors import NotFound, PermissionDenied
from shopfloor.repositories.outbox import Delivery
from shopfloor.repositories.uow import UnitOfWork

MAX_EVENTS = 200
OUTCOME_UNKNOWN = "Outcome unknown: the process that served this call ended before it answered"


def log_decision(uow: UnitOfWork, toolset: str, tool: str, title: str, body: str) -> int:
    """Log a decision of the calling agent about its current task, and return the row's number."""
    if uow.actor.kind is Kind.AGENT:
        uow.task = uow.agents.get(uow.actor.name).current_task
    number = uow.decisions.add(
        reference=uow.reference,
        kind="manual",
        subject=uow.actor.key,
        actor=uow.actor.key,
        toolset=toolset,
        tool=tool,
        # Agents paste what they see, including secrets, and many people may read the log.
        decision=redact(title),
        reasoning=redact(body),
        context="{}",
        created_at=uow.now,
    )
    uow.emit(DecisionLogged(log=number, by=uow.actor.key))
    return number


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """One call with its consequences."""

    rows: list[Entry]
    stack: str | None
    events: list[tuple[StoredEvent, list[Delivery]]]


def get_call(uow: UnitOfWork, reference: int) -> LoggedCall:
    """Return the call with this reference, from its input to the last delivery that it caused."""
    rows = uow.decisions.list_call(reference)
    if not rows:
        raise NotFound("Call not found", hint="References look like ref-1a2b3c4d5e")
    stack = next((stack for row in rows if row.kind == "error" and (stack := uow.decisions.find_stack(row.id))), None)
    return LoggedCall(rows, stack, uow.outbox.list_caused_by(reference, MAX_EVENTS))


def list_decisions(
    uow: UnitOfWork, *, agent: str | None, tool: str | None, task: int | None, limit: int, before: int | None
) -> list[Entry]:
    """List the log, newest first. A supervisor sees the whole workspace, other agents their own rows."""
    own = uow.actor.kind is Kind.AGENT and uow.actor.role != SUPERVISOR
    if own and agent not in (None, uow.actor.name):
        raise PermissionDenied("You may read your own log only", rule="own_log_only")
    name = uow.actor.name if own else agent
    subject = None if name is None else f"agent:{name}"
    return uow.decisions.list_page(limit=limit, before=before, subject=subject, tool=tool, task=task)


def close_left_open(uow: UnitOfWork, limit: int = 100) -> int:
    """Close the open calls of dead processes with an unknown outcome, and return their number."""
    # `close` returns whether this replica did it, so that each call gets one closing row.
    entries = [entry for entry in uow.decisions.list_left_open(limit) if uow.decisions.close(entry.id)]
    for entry in entries:
        uow.decisions.add(
            reference=entry.reference,
            kind="error",
            subject=entry.subject,
            actor=entry.actor,
            toolset=entry.toolset,
            tool=entry.tool,
            decision=f"Tool error: {entry.tool}",
            reasoning="Automatic tool error log",
            context=format_context({"message": OUTCOME_UNKNOWN}),
            code="INTERNAL_ERROR",
            duration=uow.now - entry.created_at,
            created_at=uow.now,
        )
    return len(entries)
