"""The decision log: the rows that every call leaves, and the ones that agents write themselves."""

from __future__ import annotations

from shopfloor.domain.decisions import context_of, mask
from shopfloor.domain.events import DecisionLogged
from shopfloor.repositories.work import Work

OUTCOME_UNKNOWN = "Outcome unknown: the process that served this call ended before it answered"


def log(work: Work, toolset: str, tool: str, title: str, body: str) -> int:
    """The number of a decision that the calling agent wrote into the log."""
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
