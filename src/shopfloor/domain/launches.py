"""Launches: runs that the server starts, now, later or repeatedly."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from shopfloor.domain.times import DAY, HOUR
from shopfloor.errors import NotFound

TOPIC = "launch"

REPEATS = {"hour": HOUR, "day": DAY, "week": 7 * DAY}
"""The intervals at which a run can be repeated."""


class LaunchState(StrEnum):
    """The state of a launch. A repeating launch waits again after each start."""

    WAITING = "waiting"
    STARTING = "starting"
    STARTED = "started"
    FAILED = "failed"
    CANCELLED = "cancelled"


class LaunchNotFound(NotFound):
    """Launch {launch} not found"""


@dataclass(frozen=True, slots=True)
class Launch:
    """A run that the server starts. Without a specification it continues the run of that name."""

    id: int
    run: str
    spec: str | None
    options: str
    state: LaunchState
    due_at: int | None
    repeat: int | None
    pid: int | None
    host: str | None
    problem: str | None
    launches: int
    created_by: str
    created_at: int
    launched_at: int | None


def find_next_due(due_at: int, repeat: int, now: int) -> int:
    """Return the first time after now in the series that starts at `due_at`; missed times are skipped."""
    return due_at + repeat * max(1, (now - due_at) // repeat + 1)
