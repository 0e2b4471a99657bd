from __future__ import annotations

import pytest

from shopfloor.domain.times import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    format_iso,
    format_iso_or_none,
    parse_iso,
    parse_moment,
)  # fmt: skip
from shopfloor.errors import InvalidInput


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
def test_time_is_formatted_as_utc_with_milliseconds(at, text):
    assert (format_iso(at), format_iso_or_none(at)) == (text, text)


def test_missing_time_is_formatted_as_none():
    assert format_iso_or_none(None) is None


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", "2026-03-10T12:30:00.000Z"),
        ("today", "2026-03-10T00:00:00.000Z"),
        ("Yesterday", "2026-03-09T00:00:00.000Z"),
        ("09:15", "2026-03-10T09:15:00.000Z"),
        ("90s", "2026-03-10T12:28:30.000Z"),
        ("1h", "2026-03-10T11:30:00.000Z"),
        ("2 days ago", "2026-03-08T12:30:00.000Z"),
        ("1 week", "2026-03-03T12:30:00.000Z"),
        ("2026-03-01T09:00+01:00", "2026-03-01T08:00:00.000Z"),
        ("2026-03-01", "2026-03-01T00:00:00.000Z"),
    ],
)
def test_people_write_times_in_many_ways(text, moment):
    now = parse_iso("2026-03-10T12:30Z", "now")
    assert format_iso(parse_moment(text, now, "since")) == moment


@pytest.mark.parametrize("text", ["sometime", "25:00", "1 fortnight", "h", "-1h", "٣h"])
def test_a_time_that_is_not_understood_names_what_is(text):
    with pytest.raises(InvalidInput, match="must be a time such as 1h, yesterday"):
        parse_moment(text, 0, "since")
