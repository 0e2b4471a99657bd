"""Recognize a provider's rate limit in an agent's words, and read when it ends."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime

MAX_PAUSE_SECONDS = 3600.0
"""The longest pause if the provider does not say when its limit ends."""
MAX_RESET_SECONDS = 8 * 86400.0
"""A reset further away than a weekly limit is treated as a misread number."""

_UNIT_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LIMIT = re.compile(
    r"\b429\b|\b529\b|rate.?limit|too many requests|usage.limit|quota.{0,20}exceeded|exceeded.{0,20}quota"
    r"|resource.exhausted|overloaded",
    re.IGNORECASE,
)
# Providers write: retry after 3600 seconds; Retry-After 20; try again in 5m30s; resets in 2 hours.
_DURATION = re.compile(
    r"(?:retry.?after|try again (?:in|after)|resets? (?:in|after)|retry.?delay)[\"\s:=]*"
    r"((?:\d+(?:\.\d+)?\s*[a-z]*\s*)+)",
    re.IGNORECASE,
)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(milliseconds?|ms|[smhd])?", re.IGNORECASE)
_MOMENT = re.compile(r"\b(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)")
# Claude Code ends its message with a Unix timestamp: "usage limit reached|1749924000".
_EPOCH = re.compile(r"\b(1[6-9]\d{8}|2\d{9})\b")


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A rate limit, and in how many seconds it ends; None if the provider does not say."""

    seconds: float | None


@dataclass
class RateLimitPool:
    """The rate limit shared by the agents of one provider: once one of them has hit it, the others wait too."""

    _ends_at: float = 0.0

    def extend(self, seconds: float) -> None:
        """Note that the limit lasts for this many seconds."""
        self._ends_at = max(self._ends_at, time.monotonic() + seconds)

    @property
    def seconds(self) -> float:
        """How many seconds the limit still lasts; 0 if there is none."""
        return max(self._ends_at - time.monotonic(), 0.0)


def find_rate_limit(failure: str, now: datetime) -> RateLimit | None:
    """Return the rate limit that a failure reports, or None."""
    if _LIMIT.search(failure) is None:
        return None
    seconds = _read_duration(failure)
    if seconds is None:
        moment = _read_moment(failure)
        seconds = None if moment is None else (moment - now).total_seconds()
    if seconds is None or not 0 <= seconds <= MAX_RESET_SECONDS:
        return RateLimit(None)
    return RateLimit(seconds)


def _read_duration(text: str) -> float | None:
    found = _DURATION.search(text)
    if found is None:
        return None
    total = 0.0
    for number, unit in _PART.findall(found[1]):
        milliseconds = unit.lower() in ("ms", "millisecond", "milliseconds")
        total += float(number) * (0.001 if milliseconds else _UNIT_SECONDS[(unit or "s")[0].lower()])
    return total


def _read_moment(text: str) -> datetime | None:
    found = _MOMENT.search(text)
    if found is not None:
        try:
            moment = datetime.fromisoformat(found[1])
        except ValueError:
            return None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    epoch = _EPOCH.search(text)
    return None if epoch is None else datetime.fromtimestamp(int(epoch[1]), UTC)
