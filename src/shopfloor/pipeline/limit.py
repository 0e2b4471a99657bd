"""limit: so many calls a minute per principal and tool, in a sliding window. Stands before the log."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping

from shopfloor.domain.actors import Principal
from shopfloor.domain.times import MINUTE, SECOND
from shopfloor.errors import RateLimited
from shopfloor.pipeline import Next, Step
from shopfloor.repositories.work import Works
from shopfloor.toolkit import Answer, Call

FEW = 10_000


def limit(per_minute: Mapping[str, int], elapsed: Callable[[], int], works: Works, hit: Callable[[str], None]) -> Step:
    """The step that refuses a call too many; 0 a minute means without limit. Setting the clock changes no window."""
    windows = Windows()

    def step(call: Call, next: Next) -> Answer:
        allowed = per_minute.get(call.name, 0)
        if allowed and call.waited is None:
            assert call.actor is not None
            wait = windows.wait((call.actor.key, call.name), allowed, elapsed())
            if wait is not None:
                hit(call.name)
                _note(works, call, call.actor)
                raise RateLimited(tool=call.name, seconds=wait, hint=f"Wait {wait} s, then call again")
        return next(call)  # type: ignore[no-any-return]

    return step


class Windows:
    """When who called what within the last minute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: dict[tuple[str, str], deque[int]] = {}
        self._many = FEW
        self.sweeps = 0

    def __len__(self) -> int:
        return len(self._times)

    def wait(self, key: tuple[str, str], allowed: int, now: int) -> int | None:
        """Seconds to wait, or None when the call is within the limit and has been counted."""
        with self._lock:
            if len(self._times) > self._many:
                self._sweep(now)
            window = self._times.setdefault(key, deque())
            while window and window[0] <= now - MINUTE:
                window.popleft()
            if len(window) >= allowed:
                return max(1, math.ceil((window[0] + MINUTE - now) / SECOND))
            window.append(now)
            return None

    def _sweep(self, now: int) -> None:
        """Forget who was quiet; the next time only when there are twice as many, so that it costs each call little."""
        self._times = {key: window for key, window in self._times.items() if window and window[-1] > now - MINUTE}
        self._many = max(FEW, 2 * len(self._times))
        self.sweeps += 1


def _note(works: Works, call: Call, actor: Principal) -> None:
    works.later(
        lambda work: work.decisions.count_limited(
            reference=call.reference,
            since=call.started - MINUTE,
            subject=actor.key,
            toolset=call.toolset.name,
            tool=call.name,
            now=call.started,
        ),
        actor,
        call.reference,
    )
