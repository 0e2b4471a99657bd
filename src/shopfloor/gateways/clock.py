"""The clock of the machine."""

from __future__ import annotations

import time


def now() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def elapsed() -> int:
    """Microseconds since some moment: for spans of time, which go on when somebody sets the clock."""
    return time.monotonic_ns() // 1000
