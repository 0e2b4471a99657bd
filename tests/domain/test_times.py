from __future__ import annotations

import pytest

from shopfloor.domain.times import DAY, HOUR, MINUTE, SECOND, iso, iso_or_none


def test_spans_are_microseconds():
    assert (SECOND, MINUTE, HOUR, DAY) == (1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_999, "1970-01-01T00:00:00.001Z"),
        (1_769_040_000_123_456, "2026-01-22T00:00:00.123Z"),
        (1_769_040_000_999_999, "2026-01-22T00:00:00.999Z"),
    ],
)
def test_a_time_is_utc_in_milliseconds(at, text):
    assert (iso(at), iso_or_none(at)) == (text, text)


def test_a_time_that_has_not_come_is_nothing():
    assert iso_or_none(None) is None
