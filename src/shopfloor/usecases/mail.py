"""Mail: sent, delivered, read, acted on."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from shopfloor.domain.events import MailSent
from shopfloor.domain.mail import (
    EVERYONE,
    HUMAN,
    ROLE_PREFIX,
    RUN_PREFIX,
    SYSTEM,
    SYSTEM_TYPE,
    Mail,
    NotYourMail,
    Participant,
    Receipt,
    agent_participant,
    format_reply_subject,
    run_participant,
    sender_type,
    to_participant,
)
from shopfloor.domain.principals import LOCAL, Kind
from shopfloor.errors import AgentNotFound, InvalidInput
from shopfloor.repositories.mail import InboxFilter
from shopfloor.repositories.uow import UnitOfWork

MAX_NOTICED_MAILS = 100
"""Maximum number of mails that one notice marks as delivered."""

_AGENTS_PER_PAGE = 200


def resolve_recipients(
    uow: UnitOfWork, to_agent: str | None, to_human: bool, to: Sequence[str] | None
) -> list[Participant]:
    """Return the recipients of an address: the person in charge, one agent, or a list of names and groups."""
    if to_human:
        return [HUMAN]
    if to_agent is not None:
        return [_find_party(uow, to_agent)]
    parties = dict.fromkeys(party for address in to or () for party in _expand_address(uow, address))
    if not parties:
        raise InvalidInput("No recipients match", field="to", hint="Name agents; groups exclude the sender")
    return list(parties)


def _expand_address(uow: UnitOfWork, address: str) -> list[Participant]:
    """Return every recipient behind one address. Groups exclude the sender."""
    if address == HUMAN.name:
        return [HUMAN]
    if address != EVERYONE and not address.startswith(ROLE_PREFIX):
        return [_find_party(uow, address)]
    role = None if address == EVERYONE else address.removeprefix(ROLE_PREFIX)
    if role is not None and role not in uow.limits.agent_types:
        raise InvalidInput(f"Unknown role '{role}'; expected one of {', '.join(uow.limits.agent_types)}", field="to")
    absent = {uow.actor.name}
    if uow.workspaces.is_closed(uow.workspace):
        absent.add(LOCAL)  # no caller acts as the built-in agent once there are credentials
    return [agent_participant(name) for name in _list_agent_names(uow, role) if name not in absent]


def _find_party(uow: UnitOfWork, address: str) -> Participant:
    """Return the agent of that name, or the run; `run:NAME` is always the run."""
    if address.startswith(RUN_PREFIX):
        return run_participant(uow.runs.get(address.removeprefix(RUN_PREFIX)).name)
    try:
        return agent_participant(uow.agents.get_active(address).name)
    except AgentNotFound as error:
        if (run := uow.runs.find(address)) is None:
            names = [agent.name for agent in uow.agents.list_page(_AGENTS_PER_PAGE, "", type=None, active=True)]
            error.facts["similar"] = get_close_matches(address, names, 1)
            raise
        return run_participant(run.name)


def _list_agent_names(uow: UnitOfWork, role: str | None) -> list[str]:
    names: list[str] = []
    while page := uow.agents.list_page(_AGENTS_PER_PAGE, names[-1] if names else "", type=role, active=True):
        names += [agent.name for agent in page]
    return names


def send_mail(
    uow: UnitOfWork,
    recipients: Sequence[Participant],
    subject: str,
    body: str,
    *,
    importance: str = "normal",
    ack_within: int | None = None,
    original: Mail | None = None,
    wanted: bool = False,
) -> int:
    """Send mail from the caller and return its number."""
    ack_by = None if ack_within is None else uow.now + ack_within
    number = uow.mail.add(
        sender=to_participant(uow.actor),
        sender_type=sender_type(uow.actor),
        subject=subject,
        body=body,
        thread=None if original is None else original.thread,
        in_reply_to=None if original is None else original.id,
        importance=importance,
        ack_by=ack_by,
        now=uow.now,
    )
    for recipient in recipients:
        _add_recipient(uow, number, recipient, subject, wanted=wanted or ack_by is not None, overdue_at=ack_by)
    return number


def send_system_mail(
    uow: UnitOfWork,
    recipients: Sequence[Participant],
    subject: str,
    body: str,
    *,
    about: Participant | None,
    important: bool = False,
) -> int:
    """Send mail from the server itself and return its number. Replies go to the participant that it is about."""
    number = uow.mail.add(
        sender=SYSTEM,
        sender_type=SYSTEM_TYPE,
        reply_to=about,
        subject=subject,
        body=body,
        importance="high" if important else "normal",
        now=uow.now,
    )
    for recipient in recipients:
        _add_recipient(uow, number, recipient, subject, wanted=False, overdue_at=None)
    return number


def _add_recipient(
    uow: UnitOfWork, number: int, recipient: Participant, subject: str, *, wanted: bool, overdue_at: int | None
) -> None:
    uow.mail.add_recipient(number, recipient, wanted=wanted, overdue_at=overdue_at)
    uow.emit(MailSent(mail=number, recipient=recipient.key, to_agent=recipient.address, subject=subject))


def get_received(uow: UnitOfWork, number: int) -> Receipt:
    """Return a mail that the caller received, or raise NotYourMail."""
    receipt = uow.mail.find_receipt(number, to_participant(uow.actor))
    if receipt is None:
        # Raises MailNotFound: NotYourMail is for mail that exists.
        uow.mail.get(number)
        raise NotYourMail(mail=f"mail-{number}")
    return receipt


def read_mail(uow: UnitOfWork, number: int) -> Receipt:
    """Mark the caller's mail as read and return it."""
    get_received(uow, number)
    uow.mail.mark_read(to_participant(uow.actor), number, uow.now)
    return get_received(uow, number)


def reply_to_mail(uow: UnitOfWork, number: int, body: str) -> int:
    """Reply to a mail that the caller received, and mark that mail as acted on."""
    try:
        original = get_received(uow, number).mail
    except NotYourMail as error:
        raise NotYourMail("Can only reply to mail you received", **error.facts) from None
    to = original.reply_to or original.sender
    if to == SYSTEM:
        raise InvalidInput("This mail was sent by the server and cannot be replied to", field="originalMailId")
    if to.agent is not None:
        uow.agents.get_active(to.agent)
    _mark_acted(uow, number)
    return send_mail(uow, [to], format_reply_subject(original.subject), body, original=original)


def acknowledge_mail(uow: UnitOfWork, number: int) -> Receipt:
    """Mark the caller's mail as read and acted on."""
    get_received(uow, number)
    _mark_acted(uow, number)
    return get_received(uow, number)


def reopen_mail(uow: UnitOfWork, number: int) -> Receipt:
    """Put a mail that the caller has acknowledged back into the inbox."""
    get_received(uow, number)
    uow.mail.mark_open(to_participant(uow.actor), number)
    return get_received(uow, number)


def _mark_acted(uow: UnitOfWork, number: int) -> None:
    owner = to_participant(uow.actor)
    uow.mail.mark_read(owner, number, uow.now)
    uow.mail.mark_acted(owner, number, uow.now)


def list_mail(uow: UnitOfWork, box: InboxFilter, limit: int, before: int | None) -> list[Receipt]:
    """List the caller's mail, newest first."""
    return uow.mail.list_inbox(to_participant(uow.actor), box, limit=limit, before=before)


def mark_shown(uow: UnitOfWork, receipts: Sequence[Receipt]) -> None:
    """Mark mail as delivered once the caller has been shown it."""
    mark_delivered(
        uow, to_participant(uow.actor), [receipt.mail.id for receipt in receipts if receipt.delivered_at is None]
    )


def count_unread(uow: UnitOfWork) -> int:
    """Count the caller's unread mail."""
    return uow.mail.count_unread(to_participant(uow.actor))


def find_unread(uow: UnitOfWork) -> tuple[int, Participant | None]:
    """Count the caller's unread mail, find the sender of the newest, and mark it as delivered."""
    owner = to_participant(uow.actor)
    count = uow.mail.count_unread(owner)
    if not count:
        return 0, None
    mark_delivered(uow, owner, uow.mail.list_undelivered(owner, MAX_NOTICED_MAILS))
    return count, uow.mail.find_newest_unread_sender(owner)


def mark_delivered(uow: UnitOfWork, owner: Participant, mails: Sequence[int]) -> None:
    """Mark mail as delivered when the call finishes."""
    if mails:
        uow.on_finish(lambda later: later.mail.mark_delivered(owner, mails, later.now))


def set_waiting(uow: UnitOfWork, until: int | None) -> None:
    """Record until when the calling agent waits, or that it no longer waits. Runs have no such state."""
    if uow.actor.kind is Kind.AGENT:
        uow.agents.set_waiting_until(uow.actor.name, until)


def find_supervisor(uow: UnitOfWork, agent: str) -> Participant:
    """Return who is notified of an agent's problems: its supervisor, or the operator if it has none."""
    supervisor = uow.agents.get(agent).supervisor
    if supervisor is None or supervisor == agent or uow.agents.get(supervisor).retired_at is not None:
        return HUMAN
    return agent_participant(supervisor)


def escalate_overdue(uow: UnitOfWork, limit: int = 100) -> int:
    """Mail supervisors and senders about overdue acknowledgements, once each, and return their number."""
    # `mark_escalated` decides: if two replicas find the same receipt, only one gets True.
    overdue = [r for r in uow.mail.list_overdue(uow.now, limit) if uow.mail.mark_escalated(r.recipient, r.mail.id)]
    for receipt in overdue:
        mail, recipient = receipt.mail, receipt.recipient
        supervisor = HUMAN if recipient.agent is None else find_supervisor(uow, recipient.agent)
        send_system_mail(
            uow,
            list(dict.fromkeys(party for party in (supervisor, mail.sender) if party not in (SYSTEM, recipient)))
            or [HUMAN],
            f"Not acknowledged: {mail.subject}",
            f"{recipient.name} has not acknowledged mail-{mail.id} from {mail.sender.name} in time.",
            about=recipient,
            important=True,
        )
    return len(overdue)
