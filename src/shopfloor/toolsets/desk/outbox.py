"""Tools for deliveries that were given up."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.decisions import spell_reference
from shopfloor.domain.pages import listed, read_number_cursor, wanted
from shopfloor.domain.times import iso, iso_or_none
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.manners import toolset
from shopfloor.usecases import outbox
from shopfloor.usecases.outbox import Delivery

EventNumber = Annotated[int, Field(description="The event's number", ge=1)]
Name = Annotated[str, Field(description="Whom it could not be delivered to", min_length=1, max_length=255)]


@toolset.tool("dead_letters", read_only=True)
def dead_letters(work: Work, limit: Limit = None, cursor: Cursor = None) -> Json:
    """Deliveries that failed too often and wait for a person."""
    rows = work.outbox.dead(wanted(limit), read_number_cursor("deadLetters", cursor))
    return listed("deadLetters", rows, limit, _letter, lambda delivery: delivery.event.id)


@toolset.tool("dead_letter_retry", idempotent=True)
def retry(work: Work, event: EventNumber, subscriber: Name) -> Json:
    """Try a dead letter again, from the beginning."""
    return {"retried": outbox.revive(work, event, subscriber), "event": event, "subscriber": subscriber}


def _letter(delivery: Delivery) -> Json:
    told = delivery.event
    return {
        "event": told.id,
        "subscriber": delivery.subscriber,
        "name": told.name,
        "data": told.data,
        "reference": None if told.reference is None else spell_reference(told.reference),
        "tries": told.tries,
        "error": delivery.error,
        "at": iso(told.created_at),
        "deadAt": iso_or_none(delivery.dead_at),
    }
