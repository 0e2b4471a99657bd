"""Failures that are not the caller's fault reach somebody in charge: once, with a count."""

from __future__ import annotations

from shopfloor.domain.events import CallEscalated
from shopfloor.domain.times import MINUTE
from shopfloor.repositories.work import Work

MERGED_WITHIN = 5 * MINUTE


def escalate(work: Work, *, subject: str, tool: str, code: str, message: str, stack: str) -> None:
    """Write the failure down. The same one within five minutes only counts."""
    number = work.escalations.add(
        subject=subject,
        tool=tool,
        code=code,
        message=message,
        stack=stack,
        reference=work.reference,
        since=work.now - MERGED_WITHIN,
        now=work.now,
    )
    if number is not None:
        work.tell(CallEscalated(escalation=number, subject=subject, tool=tool))
