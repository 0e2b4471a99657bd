"""Functions on the event loop's own thread that step aside while they wait, instead of holding up the loop.

Each has a stack of its own (a greenlet). What a call does before and after its transaction is short; a thread to do
it on costs more than the doing, because each hand-over from thread to thread waits for the interpreter.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from threading import Lock
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")


def begin(fn: Callable[..., T], *given: Any) -> asyncio.Future[T]:
    """What `fn` will return. It runs here, up to where it first has to wait."""
    loop = asyncio.get_running_loop()
    walk = _Aside(fn, loop, loop.create_future())
    walk.go(*given)
    return walk.outcome


def gate() -> Any:
    """Something to wait for: `acquire` waits until somebody, on whatever thread, calls `release`."""
    here = getcurrent()
    if isinstance(here, _Aside):
        return here
    lock = Lock()
    lock.acquire()
    return lock


def pause(seconds: float) -> None:
    """Wait a while."""
    here = getcurrent()
    if isinstance(here, _Aside):
        here.loop.call_later(seconds, here.go)
        here.acquire()
    else:
        time.sleep(seconds)


def steps_aside() -> bool:
    """Whether waiting here holds up nobody."""
    return isinstance(getcurrent(), _Aside)


class _Aside(greenlet):
    def __init__(self, fn: Callable[..., Any], loop: asyncio.AbstractEventLoop, outcome: asyncio.Future[Any]) -> None:
        super().__init__(fn)
        self.gr_context = copy_context()
        self.loop = loop
        self.outcome = outcome

    def go(self, *given: Any) -> None:
        """Run on, until the end or the next wait."""
        try:
            result = self.switch(*given)
        except BaseException as error:  # noqa: BLE001 - it is raised where the outcome is awaited
            if not self.outcome.done():
                self.outcome.set_exception(error)
            return
        if self.dead and not self.outcome.done():
            self.outcome.set_result(result)

    def acquire(self) -> None:
        assert self.parent is not None
        self.parent.switch()

    def release(self) -> None:
        with suppress(RuntimeError):  # the loop was closed, and nobody waits any more
            self.loop.call_soon_threadsafe(self.go)
