"""Escalations: failures that are not the caller's fault reach the supervisor or the operator once, with a count."""

from __future__ import annotations

from contextlib import suppress

from shopfloor.domain.decisions import format_reference
from shopfloor.domain.events import CallEscalated
from shopfloor.domain.mail import HUMAN, SYSTEM, Mail, Participant, agent_participant
from shopfloor.domain.text import format_tool_name
from shopfloor.domain.times import MINUTE, format_iso
from shopfloor.errors import AgentNotFound, ShopfloorError, Unavailable
from shopfloor.repositories.escalations import Escalation
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import mail

MERGE_WINDOW = 5 * MINUTE
MAX_MAILS_PER_WINDOW = 10
"""Maximum number of mails to one recipient per window; further failures are counted in the last mail."""

CRITICAL_PREFIX = "⚠️ CRITICAL"

_MESSAGES_FOR_AGENTS = {Unavailable.code: Unavailable.__doc__}

_MAX_MESSAGE_CHARS = 1000
_MAX_STACK_CHARS = 16 * 1024


def escalate(uow: UnitOfWork, *, subject: str, tool: str, code: str, message: str, stack: str, critical: bool) -> None:
    """Record the failure. The same failure within five minutes only raises its count."""
    # Two concurrent failures would not see each other: 32 made 5 escalations on PostgreSQL.
    uow.workspaces.lock(uow.workspace)
    number = uow.escalations.add(
        subject=subject,
        tool=tool,
        code=code,
        message=message,
        stack=stack,
        reference=uow.reference,
        since=uow.now - MERGE_WINDOW,
        now=uow.now,
    )
    if number is not None:
        uow.emit(CallEscalated(escalation=number, subject=subject, tool=tool, critical=critical))


def mail_escalation(uow: UnitOfWork, number: int, *, critical: bool) -> None:
    """Mail an escalation to the supervisor of the agent or the operator; a critical one to both."""
    escalation = uow.escalations.get(number)
    agent = escalation.subject.removeprefix("agent:") if escalation.subject.startswith("agent:") else None
    recipient = HUMAN
    if agent is not None:
        # A caller that never existed has no supervisor; the operator gets the mail instead.
        with suppress(AgentNotFound):
            recipient = mail.find_supervisor(uow, agent)
    if critical and recipient != HUMAN:
        _mail_failure(uow, escalation, agent, recipient, critical=True)
        recipient = HUMAN
    # Last, so that a critical escalation counts in the operator's mail.
    _mail_failure(uow, escalation, agent, recipient, critical=critical)


def _mail_failure(
    uow: UnitOfWork, escalation: Escalation, agent: str | None, recipient: Participant, *, critical: bool
) -> None:
    """Mail a failure, unless the recipient just got enough such mail."""
    number = escalation.id
    mail_count, newest = uow.escalations.count_mails(recipient.key, uow.now - MERGE_WINDOW)
    if mail_count >= MAX_MAILS_PER_WINDOW:
        uow.escalations.set_mail(number, recipient.key, newest)
        return
    reference = format_reference(escalation.reference)
    lines = [
        f"Tool: {escalation.tool}",
        f"Caller: {escalation.subject}",
        f"Code: {escalation.code}",
        f"Time: {format_iso(escalation.first_at)}",
        # The message may quote the engine, with the host and user of the database.
        f"Message: {escalation.message[:_MAX_MESSAGE_CHARS]}"
        if recipient == HUMAN
        else f"Message: {_MESSAGES_FOR_AGENTS.get(escalation.code, ShopfloorError.__doc__)}",
        f"Reference: {reference}",
        "",
        # Agents get a reference; only people see the cause.
        escalation.stack[-_MAX_STACK_CHARS:]
        if recipient == HUMAN
        else f"A person finds the cause in the log under {reference}.",
    ]
    prefix = f"{CRITICAL_PREFIX}: " if critical else ""
    sent = mail.send_system_mail(
        uow,
        [recipient],
        f"{prefix}{format_tool_name(escalation.tool)} failed for {escalation.subject.partition(':')[2]}"[:200],
        "\n".join(lines),
        about=None if agent is None or recipient.agent == agent else agent_participant(agent),
        important=True,
    )
    uow.escalations.set_mail(number, recipient.key, sent)


def describe_repeats(uow: UnitOfWork, mail: Mail) -> str:
    """Return the note that a mail about failures gets beyond its text: the number of failures."""
    if mail.sender != SYSTEM:
        return ""
    count, last_at, kinds = uow.escalations.summarize_mail(mail.id)
    if count < 2:
        return ""
    others = f", of {kinds} kinds: see the log" if kinds > 1 else ""
    return f"\n\nSeen {count} times until {format_iso(last_at)}{others}."
