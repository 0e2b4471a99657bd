"""Deliveries that were given up, and a second chance for them."""

from __future__ import annotations

from shopfloor.errors import NotFound
from shopfloor.repositories.outbox import Delivery
from shopfloor.repositories.work import Work

__all__ = ["Delivery", "revive"]


def revive(work: Work, event: int, subscriber: str) -> bool:
    """Whether the delivery was dead and is due again; one that is under way already is left alone."""
    if work.outbox.find(event, subscriber) is None:
        raise NotFound(f"There is no delivery of event {event} to '{subscriber[:64]}'; it may have been done")
    return work.outbox.revive(event, subscriber, work.now)
