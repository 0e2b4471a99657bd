"""The mailer: what follows from events about mail, and escalations that become mail."""

from __future__ import annotations

import logging

from shopfloor.background.dispatcher import Subscriber
from shopfloor.domain.events import CallEscalated, Event, MailSent, Told
from shopfloor.repositories.work import Work
from shopfloor.usecases import escalations

_log = logging.getLogger("shopfloor.mail")


def subscribers() -> list[Subscriber]:
    """Who hears of escalations."""
    return [
        Subscriber("escalation mail", frozenset({CallEscalated.name}), inside=mail_escalation),
    ]


def log_sent(event: Event) -> None:
    """A line in the log for each mail, as the event has it. Nothing hangs on it, so no delivery is kept for it."""
    if event.name == MailSent.name:
        _log.info(event.name, extra=event.data())


def mail_escalation(work: Work, event: Told) -> None:
    """Tell whoever is in charge."""
    escalations.tell(work, event.data["escalationId"])
