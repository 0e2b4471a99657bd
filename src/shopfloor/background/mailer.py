"""The mailer: what follows from events about mail, and escalations that become mail."""

from __future__ import annotations

import logging

from shopfloor.background.dispatcher import Subscriber
from shopfloor.domain.events import CallEscalated, MailSent, Told
from shopfloor.repositories.work import Work
from shopfloor.usecases import escalations

_log = logging.getLogger("shopfloor.mail")


def subscribers() -> list[Subscriber]:
    """Who hears of mail and of escalations."""
    return [
        Subscriber("mail log", frozenset({MailSent.name}), inside=log_sent),
        Subscriber("escalation mail", frozenset({CallEscalated.name}), inside=mail_escalation),
    ]


def log_sent(_: Work, event: Told) -> None:
    """Log the event as it is."""
    _log.info(event.name, extra=event.data)


def mail_escalation(work: Work, event: Told) -> None:
    """Tell whoever is in charge."""
    escalations.tell(work, event.data["escalationId"])
