"""Todo lists: retention of deleted tasks, due dates, and the event of a change."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from shopfloor.domain.tasks import Task
from shopfloor.domain.times import DAY, SECOND
from shopfloor.errors import InvalidInput

# How long a deleted task or a removed user can be restored.
DELETED_RETENTION = 30 * DAY

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TodoPage:
    """A page of tasks of a list, the total, and where the next page starts."""

    tasks: list[Task]
    count: int
    next: int | None


@dataclass(frozen=True, slots=True)
class TodoChanged:
    """A task on a user's list was changed."""

    name: ClassVar[str] = "todo.changed"
    task: int
    user: str
    change: str

    def data(self) -> dict[str, Any]:
        return {"taskId": self.task, "user": self.user, "change": self.change}

    def topics(self) -> tuple[str, ...]:
        return (todo_topic(self.user),)


def todo_topic(user: str) -> str:
    """Return the topic of a user's list. It is a hash, because names may contain spaces and topics may not."""
    return f"todo-{hashlib.sha256(user.encode()).hexdigest()[:24]}"


def parse_due(text: str, zone: str | None = None) -> tuple[int, str]:
    """Parse a due date; return the moment and its zone: an IANA name, or the offset in the text."""
    try:
        at = datetime.fromisoformat(text.strip())
        if at.tzinfo is None:
            if not zone:
                raise InvalidInput(
                    "A due date needs a zone: append an offset such as +01:00, or name one", field="dueAt"
                )
            at = at.replace(tzinfo=ZoneInfo(zone))
        elif zone:
            at = at.astimezone(ZoneInfo(zone))
        # Without a named zone the offset is kept, so that the user reads the time as it was typed.
        offset = "UTC" if not at.utcoffset() else at.isoformat()[-6:]
        return (at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1), zone or offset
    except (ValueError, KeyError, OSError, OverflowError):
        raise InvalidInput(
            "A due date is a date with a time, like 2026-03-01T09:00, and a zone like Europe/Berlin or +01:00",
            field="dueAt",
        ) from None


def format_due(at: int | None, zone: str | None) -> str | None:
    """Format the moment in its own zone, with the offset."""
    if at is None:
        return None
    moment = _EPOCH + timedelta(seconds=at // SECOND)
    local: tzinfo | None = UTC
    if zone and zone[0] in "+-":
        local = datetime.fromisoformat(f"2000-01-01T00:00{zone}").tzinfo
    elif zone:
        # A zone stored on one machine may be missing from another's time zone database.
        with suppress(ValueError, KeyError, OSError):
            local = ZoneInfo(zone)
    return moment.astimezone(local).isoformat(timespec="minutes")
