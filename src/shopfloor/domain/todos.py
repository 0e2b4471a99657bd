"""Todo lists: how long a deletion can be undone, when something is due, and what is told of a change."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from shopfloor.domain.tasks import Task
from shopfloor.domain.times import DAY, SECOND
from shopfloor.errors import InvalidInput

KEPT = 30 * DAY
"""A deleted task, and all that belongs to a removed user, can be brought back for so long."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Page:
    """Some tasks of a list, how many there are in all, and where to go on."""

    tasks: list[Task]
    count: int
    next: int | None


@dataclass(frozen=True, slots=True)
class TodoChanged:
    """Something happened to a task on a user's list."""

    name: ClassVar[str] = "todo.changed"
    task: int
    user: str
    change: str

    def data(self) -> dict[str, Any]:
        return {"taskId": self.task, "user": self.user, "change": self.change}

    def topics(self) -> tuple[str, ...]:
        return (topic_of(self.user),)


def topic_of(user: str) -> str:
    """What those who watch a user's list wait for; names may hold spaces, topics may not."""
    return f"todo-{hashlib.sha256(user.encode()).hexdigest()[:24]}"


def due(text: str, zone: str | None = None) -> tuple[int, str]:
    """The moment, and the zone it was meant in: an IANA name, or the offset that the text itself carries."""
    try:
        at = datetime.fromisoformat(text.strip())
        if at.tzinfo is None:
            if not zone:
                raise InvalidInput("dueAt needs a zone: write +01:00 behind it, or name one", field="dueAt")
            at = at.replace(tzinfo=ZoneInfo(zone))
        elif zone:
            at = at.astimezone(ZoneInfo(zone))
        return (at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1), zone or _offset(at)
    except (ValueError, KeyError, OSError, OverflowError):
        raise InvalidInput(
            "dueAt is a date with a time, like 2026-03-01T09:00, and a zone like Europe/Berlin or +01:00", field="dueAt"
        ) from None


def spell_due(at: int | None, zone: str | None) -> str | None:
    """The moment as a clock in its own zone shows it, with the offset."""
    if at is None:
        return None
    moment = _EPOCH + timedelta(seconds=at // SECOND)
    return moment.astimezone(_zone(zone)).isoformat(timespec="minutes")


def _offset(at: datetime) -> str:
    return "UTC" if not at.utcoffset() else at.isoformat()[-6:]


def _zone(zone: str | None) -> Any:
    if zone and zone[0] in "+-":
        return datetime.fromisoformat(f"2000-01-01T00:00{zone}").tzinfo
    try:
        return ZoneInfo(zone or "UTC")
    except (ValueError, KeyError, OSError):
        return UTC
