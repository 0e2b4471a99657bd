"""Rate limits in the words of agents."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shopfloor.runner.rate_limits import RateLimit, find_rate_limit

NOW = datetime(2026, 6, 14, 18, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("failure", "seconds"),
    [
        ("429 Too Many Requests, retry after 3600 seconds", 3600),
        ("rate_limit_error: try again in 5m30s", 330),
        ('Rate limit exceeded\n{"retry-after": "20"}', 20),
        ("usage limit reached, resets in 2 hours", 7200),
        ("rate limited: retry after 250ms", 0.25),
        ("You have hit your usage limit. It resets at 2026-06-14T19:00:00Z", 3600),
        ("Claude AI usage limit reached|1781463600", 3600),
        ("overloaded_error", None),
        ("429 retry after 99999999 seconds", None),
        ("quota exceeded, reset at 2020-01-01T00:00:00Z", None),
    ],
)
def test_the_end_of_a_rate_limit_is_read(failure: str, seconds: float | None):
    assert find_rate_limit(failure, NOW) == RateLimit(seconds)


@pytest.mark.parametrize("failure", ["the agent ended with exit code 3", "line 4290 is wrong", "port 14290 is taken"])
def test_other_failures_are_no_rate_limit(failure: str):
    assert find_rate_limit(failure, NOW) is None
