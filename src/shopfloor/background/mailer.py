"""The mailer: subscribers that log mail and send escalations as mail."""

from __future__ import annotations

import logging

from shopfloor.background.dispatcher import Subscriber
from shopfloor.domain.events import CallEscalated, Event, MailSent, StoredEvent
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import escalations

_log = logging.getLogger("shopfloor.mail")


def subscribers() -> list[Subscriber]:
    """Return the subscribers to escalations."""
    return [
        Subscriber("escalation mail", frozenset({CallEscalated.name}), in_transaction=mail_escalation),
    ]


def log_sent(event: Event) -> None:
    """Log a line for each mail. It needs no delivery: nothing depends on it."""
    if event.name == MailSent.name:
        _log.info(event.name, extra=event.data())


def mail_escalation(uow: UnitOfWork, event: StoredEvent) -> None:
    """Mail the escalation to the supervisor or the operator."""
    escalations.mail_escalation(uow, event.data["escalationId"], critical=event.data.get("critical", False))
