"""limit: calls per minute for each principal and tool, in a sliding window."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from shopfloor.domain.times import MINUTE, SECOND
from shopfloor.errors import RateLimited
from shopfloor.repositories.uow import Database, UnitOfWork
from shopfloor.toolkit import AuthenticatedRequest

SWEEP_THRESHOLD = 10_000


def limit(
    next: Callable[[AuthenticatedRequest], Any],
    calls_per_minute: Mapping[str, int],
    elapsed: Callable[[], int],
    database: Database,
    count: Callable[[str], None],
) -> Callable[[AuthenticatedRequest], Any]:
    """Reject calls above the limit of their tool; 0 is no limit. `elapsed` is monotonic, so setting the clock back
    does not extend a window."""
    # In memory first: a limit that needed a write would cost more than most calls that it rejects.
    windows = Windows()
    # Replicas without sticky routing share the windows in the database. Concurrent calls may exceed a limit by their
    # number.
    is_shared = database.store.engine == "postgres"

    def step(call: AuthenticatedRequest) -> Any:
        name = call.request.tool_name
        allowed = calls_per_minute.get(name, 0)
        # A resumed call was counted when it arrived.
        if allowed and call.resumed is None:
            seconds = windows.add((call.actor.key, name), allowed, elapsed())
            if seconds is None and is_shared:
                seconds = database.write(partial(_count_call, tool=name, allowed=allowed), call.actor)
            if seconds is not None:
                count(name)
                _log_limited(database, call)
                raise RateLimited(tool=name, seconds=seconds, hint=f"Wait {seconds} s, then call again")
        return next(call)

    return step


class Windows:
    """Sliding one-minute windows per caller and tool."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: dict[tuple[str, str], deque[int]] = {}
        self._sweep_at = SWEEP_THRESHOLD
        self.sweeps = 0

    def __len__(self) -> int:
        return len(self._times)

    def add(self, key: tuple[str, str], allowed: int, now: int) -> int | None:
        """Count a call and return None, or return the seconds to wait when the window is full."""
        with self._lock:
            if len(self._times) > self._sweep_at:
                self._sweep(now)
            window = self._times.setdefault(key, deque())
            # A sliding window, not a counter per minute, which would allow a burst of twice the limit around the turn
            # of a minute.
            while window and window[0] <= now - MINUTE:
                window.popleft()
            if len(window) >= allowed:
                return _seconds_until(window[0] + MINUTE, now)
            window.append(now)
            return None

    def _sweep(self, now: int) -> None:
        """Drop idle windows. The next sweep comes at twice the number left, so that the cost per call stays
        constant."""
        self._times = {key: window for key, window in self._times.items() if window and window[-1] > now - MINUTE}
        self._sweep_at = max(SWEEP_THRESHOLD, 2 * len(self._times))
        self.sweeps += 1


def _count_call(uow: UnitOfWork, tool: str, allowed: int) -> int | None:
    """Count a call across all replicas and return None, or return the seconds to wait."""
    calls, first = uow.call_windows.find(uow.actor.key, tool, uow.now - MINUTE)
    if calls >= allowed and first is not None:
        return _seconds_until(first + MINUTE, uow.now)
    uow.call_windows.add(uow.actor.key, tool, uow.now)
    return None


def _seconds_until(time: int, now: int) -> int:
    return max(1, math.ceil((time - now) / SECOND))


def _log_limited(database: Database, call: AuthenticatedRequest) -> None:
    """Count the rejection in one log row per principal, tool and window."""
    request, record = call.request, call.record
    database.later(
        lambda uow: uow.decisions.count_limited(
            reference=record.reference,
            since=record.started_at - MINUTE,
            subject=call.actor.key,
            toolset=request.toolset.name,
            tool=request.tool_name,
            now=record.started_at,
        ),
        call.actor,
        record.reference,
    )
