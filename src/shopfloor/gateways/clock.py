"""The clock of the machine, and that of the database."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from shopfloor.errors import ShopfloorError

MAX_ROUND_TRIP_MICROSECONDS = 200_000
"""A slower answer of the database is too inaccurate, and is ignored."""
MAX_CORRECTION_MICROSECONDS = 1_000_000
"""A smaller step back is waited out. A larger one means that the database's clock was set, and is adopted."""

_log = logging.getLogger("shopfloor.clock")


def now() -> int:
    """Return microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def read_monotonic() -> int:
    """Return microseconds for measuring durations, unaffected by changes to the machine's clock."""
    return time.monotonic_ns() // 1000


class DatabaseClock:
    """The time of the database that several machines share: leases must not depend on how well their clocks agree.

    The database is queried periodically. In between, time advances with a clock that cannot be set and that also runs
    while the machine is suspended. Each answer is off by up to a round trip; the time does not go back or stand still for
    that, since later events must not be listed as earlier, and lists continue after a time.
    """

    def __init__(self, read: Callable[[], int | None]) -> None:
        """Take a function that reads the clock of the database; None if that is the clock of this machine."""
        self._read = read
        self._offset: int | None = None
        self._last = 0
        self._lock = threading.Lock()
        self.synchronise()

    def now(self) -> int:
        """Return microseconds since 1970 UTC."""
        if self._offset is None:
            return now()
        with self._lock:
            time_now = _read_boot_time() + self._offset
            is_correction = time_now <= self._last <= time_now + MAX_CORRECTION_MICROSECONDS
            self._last = self._last + 1 if is_correction else time_now
            return self._last

    def synchronise(self) -> None:
        """Query the database for its time. If it cannot be reached, the local clock continues."""
        before = _read_boot_time()
        try:
            at_database = self._read()
        except ShopfloorError as error:
            _log.warning("cannot read the clock of the database: %s", error)
            return
        after = _read_boot_time()
        # A late answer is inaccurate: it was given at some moment between the two.
        if at_database is not None and (self._offset is None or after - before < MAX_ROUND_TRIP_MICROSECONDS):
            self._offset = at_database - (before + after) // 2


def _read_boot_time() -> int:
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000
