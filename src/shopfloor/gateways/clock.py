"""The clock of the machine."""

from __future__ import annotations

import time


def now() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000
