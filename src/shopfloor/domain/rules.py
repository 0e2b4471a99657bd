"""What the floor puts up with before it steps in."""

from __future__ import annotations

from dataclasses import dataclass

from shopfloor.domain.actors import AGENT_TYPES
from shopfloor.domain.times import MINUTE


@dataclass(frozen=True, slots=True)
class Rules:
    """The figures of one floor, from its settings."""

    silence: int = 7 * MINUTE
    """How long an agent may be silent before its tasks go back to the queue."""

    attempts: int = 5
    """How often a task is begun before it counts as failed."""

    crashes: int = 3
    crash_window: int = MINUTE
    """So many crashes within this time mark an agent as failed."""

    retry_pause: int = MINUTE
    """How long a failed agent pauses before it may try again; twice as long each time."""

    longest_pause: int = 60 * MINUTE
    agent_types: tuple[str, ...] = AGENT_TYPES
