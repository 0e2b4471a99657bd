"""Times: microseconds since 1970 UTC internally, ISO 8601 in responses."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from shopfloor.errors import InvalidInput

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_UNITS = {"s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
_AGO = re.compile(
    r"(\d{1,6})\s*(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)(\s+ago)?", re.IGNORECASE | re.ASCII
)
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)


def format_iso(at: int) -> str:
    """Format a time as UTC with milliseconds and Z."""
    seconds, micros = divmod(at, SECOND)
    return f"{format_iso_second(seconds)}.{micros // 1000:03d}Z"


# Most formatted times are of the current second.
@lru_cache(maxsize=256)
def format_iso_second(at: int) -> str:
    """Format a second since 1970 without a zone."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}"


def parse_iso(text: str, field: str) -> int:
    """Parse a time such as 2026-03-01T09:00Z; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"'{field}' must be a time such as 2026-03-01T09:00Z, not '{text}'", field=field) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * SECOND)


def parse_moment(text: str, now: int, field: str) -> int:
    """Parse a time as a person writes it; without a zone it is UTC.

    It may be ISO 8601, `now`, `today`, `yesterday`, a clock time of today, or how long ago: `90s`, `1h`, `2 days ago`.
    """
    written = text.strip().lower()
    today = now - now % DAY
    words = {"now": now, "today": today, "yesterday": today - DAY}
    if written in words:
        return words[written]
    if ago := _AGO.fullmatch(written):
        return now - int(ago[1]) * _UNITS[ago[2][0]]
    if at := _CLOCK.fullmatch(written):
        return today + int(at[1]) * HOUR + int(at[2]) * MINUTE
    try:
        return parse_iso(text.strip(), field)
    except InvalidInput:
        expected = "a time such as 1h, yesterday, 09:30 or 2026-03-01T09:00Z"
        raise InvalidInput(f"'{field}' must be {expected}, not '{text}'", field=field) from None


def format_iso_seconds(at: int) -> str:
    """Format a time as the todo contract has it: UTC, seconds, Z."""
    return f"{datetime.fromtimestamp(at // SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"


def format_iso_or_none(at: int | None) -> str | None:
    """Format an optional time."""
    return None if at is None else format_iso(at)
