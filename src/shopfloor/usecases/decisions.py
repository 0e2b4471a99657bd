"""The decision log: the rows that every call leaves, and the ones that agents write themselves."""

from __future__ import annotations

from dataclasses import dataclass

from shopfloor.domain.actors import SUPERVISOR, Kind
from shopfloor.domain.decisions import Entry, context_of
from shopfloor.domain.events import DecisionLogged, Told
from shopfloor.domain.masks import mask
from shopfloor.errors import NotFound, PermissionDenied
from shopfloor.repositories.outbox import Delivery
from shopfloor.repositories.work import Work

EVENTS_SHOWN = 200
OUTCOME_UNKNOWN = "Outcome unknown: the process that served this call ended before it answered"


def log(work: Work, toolset: str, tool: str, title: str, body: str) -> int:
    """The number of a decision that the calling agent wrote into the log, about the task that it holds."""
    if work.actor.kind is Kind.AGENT:
        work.task = work.agents.get(work.actor.name).current_task
    number = work.decisions.add(
        reference=work.reference,
        kind="manual",
        subject=work.actor.key,
        actor=work.actor.key,
        toolset=toolset,
        tool=tool,
        decision=mask(title),
        reasoning=mask(body),
        context="{}",
        created_at=work.now,
    )
    work.tell(DecisionLogged(log=number, by=work.actor.key))
    return number


@dataclass(frozen=True, slots=True)
class Opened:
    """One call, and what followed from it."""

    rows: list[Entry]
    stack: str | None
    events: list[tuple[Told, list[Delivery]]]


def opened(work: Work, reference: int) -> Opened:
    """The call with this reference, from its input to the last delivery that it caused."""
    rows = work.decisions.of(reference)
    if not rows:
        raise NotFound("There is no call with this reference", hint="References look like ref-1a2b3c4d5e")
    stack = next((stack for row in rows if row.kind == "error" and (stack := work.decisions.stack(row.id))), None)
    return Opened(rows, stack, work.outbox.caused_by(reference, EVENTS_SHOWN))


def page(
    work: Work, *, agent: str | None, tool: str | None, task: int | None, limit: int, before: int | None
) -> list[Entry]:
    """The log, newest first: a supervisor's of the whole workspace, everybody else's own."""
    own = work.actor.kind is Kind.AGENT and work.actor.role != SUPERVISOR
    if own and agent not in (None, work.actor.name):
        raise PermissionDenied("You may read your own log only", hint="Leave agentId out")
    name = work.actor.name if own else agent
    subject = None if name is None else f"agent:{name}"
    return work.decisions.page(limit=limit, before=before, subject=subject, tool=tool, task=task)


def close_left_open(work: Work, limit: int = 100) -> int:
    """How many calls of processes that are gone were closed as unknown."""
    entries = [entry for entry in work.decisions.left_open(limit) if work.decisions.close(entry.id)]
    for entry in entries:
        work.decisions.add(
            reference=entry.reference,
            kind="error",
            subject=entry.subject,
            actor=entry.actor,
            toolset=entry.toolset,
            tool=entry.tool,
            decision=f"Tool error: {entry.tool}",
            reasoning="Automatic tool error log",
            context=context_of({"message": OUTCOME_UNKNOWN}),
            code="INTERNAL_ERROR",
            duration=work.now - entry.created_at,
            created_at=work.now,
        )
    return len(entries)
