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


def limit(per_minute: Mapping[str, int], clock: Callable[[], int], works: Works, hit: Callable[[str], None]) -> Step:
    """The step that refuses a call too many; 0 a minute means without limit."""
    windows: dict[tuple[str, str], deque[int]] = {}
    lock = threading.Lock()

    def step(call: Call, next: Next) -> Answer:
        allowed = per_minute.get(call.name, 0)
        if allowed and call.waited is None:
            assert call.actor is not None
            now = clock()
            with lock:
                if len(windows) > 10_000:
                    _sweep(windows, now)
                wait = _wait(windows.setdefault((call.actor.key, call.name), deque()), allowed, now)
            if wait is not None:
                hit(call.name)
                _note(works, call, call.actor, now)
                raise RateLimited(tool=call.name, seconds=wait, hint=f"Wait {wait} s, then call again")
        return next(call)  # type: ignore[no-any-return]

    return step


def _wait(window: deque[int], allowed: int, now: int) -> int | None:
    """Seconds to wait, or None when the call is within the limit and has been counted."""
    while window and window[0] <= now - MINUTE:
        window.popleft()
    if len(window) >= allowed:
        return max(1, math.ceil((window[0] + MINUTE - now) / SECOND))
    window.append(now)
    return None


def _sweep(windows: dict[tuple[str, str], deque[int]], now: int) -> None:
    for key in [key for key, window in windows.items() if not window or window[-1] <= now - MINUTE]:
        del windows[key]


def _note(works: Works, call: Call, actor: Principal, now: int) -> None:
    works.later(
        lambda work: work.decisions.count_limited(
            reference=call.reference,
            since=now - MINUTE,
            subject=actor.key,
            toolset=call.toolset.name,
            tool=call.name,
            now=now,
        ),
        actor,
        call.reference,
    )
