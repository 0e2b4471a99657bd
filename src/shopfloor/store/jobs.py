"""Work handed from many threads to one, which takes all that is waiting at once."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from threading import Condition, Lock, get_ident
from typing import Any

from shopfloor.errors import StoreUnreachable
from shopfloor.store import aside
from shopfloor.store.interface import Connection

BATCH = 256
QUEUE = 10_000
LINGER = 0.02

_log = logging.getLogger("shopfloor.store")

_AWAKE, _DOZING, _ASLEEP = range(3)


class Job:
    """One function to run in a transaction, and what came of it."""

    __slots__ = ("error", "fn", "gate", "result", "topics")

    def __init__(self, fn: Callable[[Connection], Any], gate: Any = None) -> None:
        self.fn = fn
        self.gate = gate
        self.result: Any = None
        self.error: BaseException | None = None
        self.topics: list[str] = []


class Jobs:
    """A queue with one taker. A raw lock per waiting caller is the cheapest hand-over Python has."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._mutex = Lock()
        self._room = Condition(self._mutex)
        self._bell = Lock()
        self._bell.acquire()
        self._taker: int = _AWAKE
        self._waited_for = 0
        self._deferred = 0
        self._closed = False
        self.taker_ident = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def run(self, fn: Callable[[Connection], Any]) -> Any:
        """What `fn` returned, or raise what it raised, after the taker has answered."""
        self._refuse_to_block()
        gate = aside.gate()
        job = Job(fn, gate)
        with self._mutex:
            if self._closed:
                raise StoreUnreachable("The store is closed.")
            self._jobs.append(job)
            self._waited_for += 1
            if self._taker:
                self._ring()
        gate.acquire()
        if job.error is None:
            return job.result
        try:
            raise job.error
        finally:
            del job

    def defer(self, fn: Callable[[Connection], Any]) -> None:
        """Queue `fn`, which nobody waits for; wait only while the queue is full."""
        job = Job(fn)
        with self._mutex:
            while self._deferred >= QUEUE and not self._closed and get_ident() != self.taker_ident:
                self._room.wait()
            if self._closed:
                raise StoreUnreachable("The store is closed.")
            self._jobs.append(job)
            self._deferred += 1
            if self._taker == _ASLEEP or (self._taker and self._deferred >= BATCH):
                self._ring()

    def take(self, tick: float | None) -> list[Job] | None:
        """The next jobs in order; none after `tick` seconds; None once the queue is closed and empty."""
        with self._mutex:
            if self._due():
                return self._next()
            self._taker = _DOZING if self._deferred or tick else _ASLEEP
            pause = LINGER if self._deferred else tick
            company = self._deferred > 0
        rung = self._bell.acquire(timeout=-1 if pause is None else pause)
        with self._mutex:
            if not rung and self._taker == _AWAKE:
                self._bell.acquire()  # rung between the time-out and here
            self._taker = _AWAKE
            return self._next() if company or self._due() else []

    def wake(self) -> None:
        """Let the taker look around."""
        with self._mutex:
            if self._taker:
                self._ring()

    def close(self) -> None:
        """Take no more; what is queued will still be taken."""
        with self._mutex:
            self._closed = True
            self._room.notify_all()
            if self._taker:
                self._ring()

    def _due(self) -> bool:
        return self._waited_for > 0 or self._deferred >= BATCH or self._closed

    def _ring(self) -> None:
        self._taker = _AWAKE
        self._bell.release()

    def _next(self) -> list[Job] | None:
        if not self._jobs:
            return None if self._closed else []
        jobs = self._jobs
        batch = [jobs.popleft() for _ in range(min(BATCH, len(jobs)))]
        deferred = sum(job.gate is None for job in batch)
        self._waited_for -= len(batch) - deferred
        if deferred:
            self._deferred -= deferred
            self._room.notify(deferred)
        return batch

    def _refuse_to_block(self) -> None:
        if get_ident() == self.taker_ident:
            raise nested()
        if not aside.steps_aside():
            refuse_on_event_loop()


def refuse_on_event_loop() -> None:
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("store.write would block the event loop; call it on another thread")


def nested() -> RuntimeError:
    return RuntimeError("store.write was called from inside a write; use the connection at hand")


def answer(batch: list[Job]) -> None:
    """Let every caller of the batch go on."""
    for job in batch:
        if job.gate is not None:
            job.gate.release()


def log_failures(batch: list[Job]) -> None:
    """Say what went wrong with the jobs that nobody waits for."""
    for job in batch:
        if job.gate is None and job.error is not None:
            _log.error("a deferred write failed: %s", job.error, exc_info=job.error)
