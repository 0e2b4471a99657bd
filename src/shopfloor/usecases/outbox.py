"""Dead letters: deliveries that were given up."""

from __future__ import annotations

from shopfloor.errors import NotFound
from shopfloor.repositories.outbox import Delivery
from shopfloor.repositories.uow import UnitOfWork

__all__ = ["Delivery", "retry_dead_letters", "retry_delivery"]


def retry_dead_letters(uow: UnitOfWork, subscriber: str | None, limit: int) -> int:
    """Make dead deliveries due again, oldest first, and return how many."""
    return uow.outbox.revive_all(subscriber, limit, uow.now)


def retry_delivery(uow: UnitOfWork, event: int, subscriber: str) -> bool:
    """Make a dead delivery due again and return True; return False if it is still being attempted."""
    if uow.outbox.find_delivery(event, subscriber) is None:
        raise NotFound(f"Delivery of event {event} to '{subscriber[:64]}' not found; it may have been delivered")
    return uow.outbox.revive(event, subscriber, uow.now)
