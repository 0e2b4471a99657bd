"""Failures that are not the caller's fault reach somebody in charge: once, with a count."""

from __future__ import annotations

from shopfloor.domain.decisions import spell_reference
from shopfloor.domain.events import CallEscalated
from shopfloor.domain.mail import FLOOR, HUMAN, Mail, Party, agent_party
from shopfloor.domain.times import MINUTE, iso
from shopfloor.errors import AgentNotFound
from shopfloor.repositories.escalations import Escalation
from shopfloor.repositories.work import Work
from shopfloor.usecases import mail

MERGED_WITHIN = 5 * MINUTE
MAILS_WITHIN = 10
"""Mails to one recipient within that time; further failures are counted in the last of them."""

CRITICAL_TOOLS = frozenset(
    {
        "mcp__mail__send",
        "mcp__agent__get_task",
        "mcp__agent__get_epic",
        "mcp__task__update_status",
        "mcp__epic__update_status",
    }
)
CRITICAL = "⚠️ CRITICAL"

_MESSAGE_LIMIT = 1000
_STACK_LIMIT = 16 * 1024


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


def tell(work: Work, number: int) -> None:
    """Mail an escalation to whoever is in charge, unless enough such mail went there just now."""
    escalation = work.escalations.get(number)
    agent = escalation.subject.removeprefix("agent:") if escalation.subject.startswith("agent:") else None
    recipient = _in_charge(work, escalation, agent)
    told, newest = work.escalations.mailed(recipient.key, work.now - MERGED_WITHIN)
    if told >= MAILS_WITHIN:
        work.escalations.tell(number, recipient.key, newest)
        return
    sent = mail.tell(
        work,
        [recipient],
        _subject(escalation),
        _body(escalation, for_person=recipient == HUMAN),
        about=None if agent is None or recipient.agent == agent else agent_party(agent),
        important=True,
    )
    work.escalations.tell(number, recipient.key, sent)


def repeated(work: Work, told: Mail) -> str:
    """What a mail about failures says beyond its text: how many there were until now."""
    if told.sender != FLOOR:
        return ""
    count, last_at, kinds = work.escalations.told_by(told.id)
    if count < 2:
        return ""
    others = f", of {kinds} kinds: see the log" if kinds > 1 else ""
    return f"\n\nSeen {count} times until {iso(last_at)}{others}."


def _in_charge(work: Work, escalation: Escalation, agent: str | None) -> Party:
    if agent is None or escalation.tool in CRITICAL_TOOLS:
        return HUMAN
    try:
        return mail.in_charge_of(work, agent)
    except AgentNotFound:
        return HUMAN


def _subject(escalation: Escalation) -> str:
    prefix = f"{CRITICAL}: " if escalation.tool in CRITICAL_TOOLS else ""
    return f"{prefix}{escalation.tool} failed for {escalation.subject.partition(':')[2]}"[:200]


def _body(escalation: Escalation, *, for_person: bool) -> str:
    """The failure in words. Agents get a reference; only people get to see the inside."""
    reference = spell_reference(escalation.reference)
    lines = [
        f"Tool: {escalation.tool}",
        f"Caller: {escalation.subject}",
        f"Code: {escalation.code}",
        f"Time: {iso(escalation.first_at)}",
        f"Message: {escalation.message[:_MESSAGE_LIMIT]}",
        f"Reference: {reference}",
    ]
    if for_person:
        lines += ["", escalation.stack[-_STACK_LIMIT:]]
    else:
        lines += ["", f"A person finds the cause in the log under {reference}."]
    return "\n".join(lines)
