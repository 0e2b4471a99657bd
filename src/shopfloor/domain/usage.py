"""Usage: the tokens and the cost that agents report, by day."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class UsageKind(StrEnum):
    """What usage is counted for."""

    TOTAL = "total"
    AGENT = "agent"
    RUN = "run"
    TASK = "task"


@dataclass(frozen=True, slots=True)
class UsageDay:
    """The usage of one day. `cost` is in millionths."""

    day: int
    tokens: int
    cost: int
