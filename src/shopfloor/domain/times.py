"""Times: microseconds since 1970 UTC inside, ISO 8601 outside."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def iso(at: int) -> str:
    """A time as the tools spell it: UTC, milliseconds, Z."""
    seconds, micros = divmod(at, SECOND)
    return f"{second(seconds)}.{micros // 1000:03d}Z"


@lru_cache(maxsize=256)
def second(at: int) -> str:
    """A second since 1970 as ISO 8601 spells it, without its zone. Most times that are spelled are of this second."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}"


def iso_seconds(at: int) -> str:
    """A time as the todo contract spells it: UTC, seconds, Z."""
    return f"{datetime.fromtimestamp(at // SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"


def iso_or_none(at: int | None) -> str | None:
    """A time that may not have come."""
    return None if at is None else iso(at)
