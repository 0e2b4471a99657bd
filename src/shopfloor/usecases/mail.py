"""Mail: it is sent, it arrives, it is read and acted on."""

from __future__ import annotations

from collections.abc import Sequence

from shopfloor.domain.actors import LOCAL, Kind
from shopfloor.domain.events import MailSent
from shopfloor.domain.mail import (
    EVERYONE,
    FLOOR,
    FLOOR_TYPE,
    HUMAN,
    ROLE,
    RUN,
    Mail,
    NotYourMail,
    Party,
    Receipt,
    agent_party,
    party_of,
    reply_subject,
    run_party,
    type_of,
)
from shopfloor.errors import AgentNotFound, InvalidInput
from shopfloor.repositories.mail import Box
from shopfloor.repositories.work import Work

LIST_INBOX = "mcp__mail__list_inbox"
NOTICED = 100
"""Mails that one notice can deliver."""

_AGENTS = 200


def addressed(work: Work, to_agent: str | None, to_human: bool, to: Sequence[str] | None) -> list[Party]:
    """The recipients that an address stands for; exactly one kind of address must be given."""
    if [to_agent is not None, to_human, to is not None].count(True) != 1:
        raise InvalidInput(
            "Must specify either toAgentId or toHuman: true",
            field="toAgentId",
            hint="Give exactly one of toAgentId, toHuman: true, and to",
        )
    if to_human:
        return [HUMAN]
    if to_agent is not None:
        return [_party(work, to_agent)]
    parties = dict.fromkeys(party for address in to or () for party in _parties(work, address))
    if not parties:
        raise InvalidInput(
            "There is nobody at that address", field="to", hint="Name agents; a group leaves out the sender"
        )
    return list(parties)


def _parties(work: Work, address: str) -> list[Party]:
    """Everybody behind one address; groups leave out the sender."""
    if address == HUMAN.name:
        return [HUMAN]
    if address != EVERYONE and not address.startswith(ROLE):
        return [_party(work, address)]
    role = None if address == EVERYONE else address.removeprefix(ROLE)
    if role is not None and role not in work.rules.agent_types:
        raise InvalidInput(f"There is no role '{role}'; there are {', '.join(work.rules.agent_types)}", field="to")
    absent = {work.actor.name}
    if work.workspaces.closed(work.workspace):
        absent.add(LOCAL)  # nobody acts as the built-in agent where everybody has a name
    return [agent_party(name) for name in _agents(work, role) if name not in absent]


def _party(work: Work, address: str) -> Party:
    """The agent of that name, or the run; when both have it, `run:NAME` is the run."""
    if address.startswith(RUN):
        return run_party(work.runs.get(address.removeprefix(RUN)).name)
    try:
        return agent_party(work.agents.active(address).name)
    except AgentNotFound:
        if (run := work.runs.find(address)) is None:
            raise
        return run_party(run.name)


def _agents(work: Work, role: str | None) -> list[str]:
    names: list[str] = []
    while page := work.agents.page(_AGENTS, names[-1] if names else "", type=role, active=True):
        names += [agent.name for agent in page]
    return names


def send(
    work: Work,
    recipients: Sequence[Party],
    subject: str,
    body: str,
    *,
    importance: str = "normal",
    ack_within: int | None = None,
    original: Mail | None = None,
    wanted: bool = False,
) -> int:
    """The number of a mail from the caller to these recipients."""
    if work.actor.role:
        work.agents.touch(work.actor.name, work.now)
    ack_by = None if ack_within is None else work.now + ack_within
    number = work.mail.add(
        sender=party_of(work.actor),
        sender_type=type_of(work.actor),
        subject=subject,
        body=body,
        thread=None if original is None else original.thread,
        in_reply_to=None if original is None else original.id,
        importance=importance,
        ack_by=ack_by,
        now=work.now,
    )
    for recipient in recipients:
        _put(work, number, recipient, subject, wanted=wanted or ack_by is not None, overdue_at=ack_by)
    return number


def tell(
    work: Work, recipients: Sequence[Party], subject: str, body: str, *, about: Party | None, important: bool = False
) -> int:
    """The number of a mail from the floor itself; a reply goes to whom it is about."""
    number = work.mail.add(
        sender=FLOOR,
        sender_type=FLOOR_TYPE,
        reply_to=about,
        subject=subject,
        body=body,
        importance="high" if important else "normal",
        now=work.now,
    )
    for recipient in recipients:
        _put(work, number, recipient, subject, wanted=False, overdue_at=None)
    return number


def _put(work: Work, number: int, recipient: Party, subject: str, *, wanted: bool, overdue_at: int | None) -> None:
    work.mail.address(number, recipient, wanted=wanted, overdue_at=overdue_at)
    work.tell(MailSent(mail=number, recipient=recipient.key, to_agent=recipient.address, subject=subject))


def received(work: Work, number: int) -> Receipt:
    """A mail that the caller received."""
    receipt = work.mail.receipt(number, party_of(work.actor))
    if receipt is None:
        work.mail.get(number)
        raise NotYourMail(mail=f"mail-{number}")
    return receipt


def read(work: Work, number: int) -> Receipt:
    """The caller's mail, which from now on is read."""
    received(work, number)
    work.mail.read(party_of(work.actor), number, work.now)
    return received(work, number)


def reply(work: Work, number: int, body: str) -> int:
    """The number of a reply to a mail that the caller received; that one counts as acted on."""
    try:
        original = received(work, number).mail
    except NotYourMail as error:
        raise NotYourMail("Can only reply to mail you received", **error.facts) from None
    to = original.reply_to or original.sender
    if to == FLOOR:
        raise InvalidInput("Nobody reads replies to this mail: the floor itself wrote it", field="originalMailId")
    if to.agent is not None:
        work.agents.active(to.agent)
    _acted(work, number)
    return send(work, [to], reply_subject(original.subject), body, original=original)


def acknowledge(work: Work, number: int) -> Receipt:
    """The caller's mail, which from now on is read and acted on."""
    received(work, number)
    _acted(work, number)
    return received(work, number)


def _acted(work: Work, number: int) -> None:
    owner = party_of(work.actor)
    work.mail.read(owner, number, work.now)
    work.mail.act(owner, number, work.now)


def page(work: Work, box: Box, limit: int, before: int | None) -> list[Receipt]:
    """The caller's mail, newest first."""
    return work.mail.page(party_of(work.actor), box, limit=limit, before=before)


def shown(work: Work, receipts: Sequence[Receipt]) -> None:
    """What the caller gets to see counts as delivered."""
    deliver(work, party_of(work.actor), [receipt.mail.id for receipt in receipts if receipt.delivered_at is None])


def unread(work: Work) -> int:
    """How much of the caller's mail is unread."""
    return work.mail.unread(party_of(work.actor))


def notice(work: Work) -> str | None:
    """One line for a caller with unread mail; what it tells of counts as delivered."""
    owner = party_of(work.actor)
    count = work.mail.unread(owner)
    if not count:
        return None
    deliver(work, owner, work.mail.undelivered(owner, NOTICED))
    newest = work.mail.newest_unread(owner)
    sender = f"; newest from {newest.name}" if newest else ""
    return f"You have {count} unread mail{'s' if count > 1 else ''}{sender}: {LIST_INBOX}"


def deliver(work: Work, owner: Party, mails: Sequence[int]) -> None:
    """Note, once the answer stands, that its recipient was shown this mail."""
    if mails:
        work.afterwards(lambda later: later.mail.deliver(owner, mails, later.now))


def wait(work: Work, until: int | None) -> None:
    """Write down how long the calling agent waits, or that it no longer does. Runs are not looked after here."""
    if work.actor.kind is Kind.AGENT:
        work.agents.wait(work.actor.name, until)


def in_charge_of(work: Work, agent: str) -> Party:
    """Who hears of an agent's troubles: its supervisor, or the human when it has none but itself."""
    supervisor = work.agents.get(agent).supervisor
    if supervisor is None or supervisor == agent or work.agents.get(supervisor).retired_at is not None:
        return HUMAN
    return agent_party(supervisor)


def escalate_overdue(work: Work, limit: int = 100) -> int:
    """How many acknowledgements were overdue; those in charge and the senders have been told, once."""
    overdue = [r for r in work.mail.overdue(work.now, limit) if work.mail.escalated(r.recipient, r.mail.id)]
    for receipt in overdue:
        mail, recipient = receipt.mail, receipt.recipient
        boss = HUMAN if recipient.agent is None else in_charge_of(work, recipient.agent)
        tell(
            work,
            list(dict.fromkeys(party for party in (boss, mail.sender) if party not in (FLOOR, recipient))) or [HUMAN],
            f"Not acknowledged: {mail.subject}",
            f"{recipient.name} has not acknowledged mail-{mail.id} from {mail.sender.name} in time.",
            about=recipient,
            important=True,
        )
    return len(overdue)
