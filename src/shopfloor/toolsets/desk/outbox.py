"""Tools for dead letters: deliveries that failed too often."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.decisions import format_reference
from shopfloor.domain.pagination import fetch_size, parse_number_cursor, to_page
from shopfloor.domain.times import format_iso, format_iso_or_none
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases import outbox
from shopfloor.usecases.outbox import Delivery

MAX_RETRIED = 1000

EventNumber = Annotated[int, Field(description="Number of the event", ge=1)]
Name = Annotated[str, Field(description="Subscriber that it was for", min_length=1, max_length=255)]


@toolset.tool("dead_letters", read_only=True)
def list_dead_letters(uow: UnitOfWork, limit: Limit = None, cursor: Cursor = None) -> Json:
    """List the deliveries that failed too often."""
    rows = uow.outbox.list_dead(fetch_size(limit), parse_number_cursor("deadLetters", cursor))
    return to_page("deadLetters", rows, limit, _format_dead_letter, lambda delivery: delivery.event.id)


@toolset.tool("dead_letter_retry", idempotent=True)
def retry_dead_letter(uow: UnitOfWork, event: EventNumber, subscriber: Name) -> Json:
    """Retry a dead letter, with a full set of attempts."""
    return {"retried": outbox.retry_delivery(uow, event, subscriber), "event": event, "subscriber": subscriber}


@toolset.tool("dead_letter_retry_all", idempotent=True)
def retry_dead_letters(uow: UnitOfWork, subscriber: Name | None = None) -> Json:
    """Retry up to 1,000 dead letters, oldest first: all, or those of one subscriber. Call again while `more` is true."""
    retried = outbox.retry_dead_letters(uow, subscriber, MAX_RETRIED)
    return {"retried": retried, "more": retried == MAX_RETRIED}


def _format_dead_letter(delivery: Delivery) -> Json:
    event = delivery.event
    return {
        "event": event.id,
        "subscriber": delivery.subscriber,
        "name": event.name,
        "data": event.data,
        "reference": None if event.reference is None else format_reference(event.reference),
        "tries": event.tries,
        "error": delivery.error,
        "at": format_iso(event.created_at),
        "deadAt": format_iso_or_none(delivery.dead_at),
    }
