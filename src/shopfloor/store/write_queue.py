"""Writes handed from many threads to one worker, which takes all waiting writes at once.

Raw locks instead of Condition and Event, because the handoff is on the path of every write: a raw lock is one system
call at most, while Event and Condition are Python code around several locks. The rules that make it correct:

- `_mutex` guards the queue, the counters and `_worker_state`; it is held for a few instructions only.
- `_wakeup` is held by default. `_notify_worker` releases it only when the worker is POLLING or IDLE, and sets RUNNING
  under the mutex, so that it is released exactly once per sleep of the worker.
- A caller waits on a lock of its own (`cooperative.waiter`), which only the worker releases, after the commit.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from threading import Condition, Lock, get_ident
from time import monotonic, sleep
from typing import Any

from shopfloor.errors import CommitOutcomeUnknown, StoreUnreachable, Unavailable
from shopfloor.store import cooperative
from shopfloor.store.protocol import Connection

MAX_BATCH = 256
MAX_DEFERRED = 10_000
DEFER_DELAY_SECONDS = 0.02
"""How long a write that no caller waits for is held back, to share the commit of others."""
FULL_PAUSE_SECONDS = 0.01
DEFERRED_RETRY_SECONDS = 600.0
"""How long a deferred write is retried while the store is away, locked or full."""
RETRY_PAUSE_SECONDS = 0.2
DROP_REPORT_SECONDS = 300.0
"""How long the store reports a dropped deferred write as a problem."""

_log = logging.getLogger("shopfloor.store")

RUNNING, POLLING, IDLE = range(3)


class Job:
    """One function to run in a transaction, and its outcome. Without a waiter it is deferred: no caller waits."""

    __slots__ = ("error", "fn", "give_up_at", "result", "topics", "waiter")

    def __init__(self, fn: Callable[[Connection], Any], waiter: Any = None) -> None:
        self.fn = fn
        self.waiter = waiter
        self.result: Any = None
        self.error: BaseException | None = None
        self.topics: list[str] = []
        self.give_up_at: float | None = None


class WriteQueue:
    """A queue with one worker."""

    def __init__(self, can_resolve: Callable[[Job], bool] = lambda _: False) -> None:
        """Take `can_resolve`, which returns whether a write whose commit has an unknown outcome may be queued again."""
        self._can_resolve = can_resolve
        self._jobs: deque[Job] = deque()
        self._mutex = Lock()
        self._not_full = Condition(self._mutex)
        self._wakeup = Lock()
        self._wakeup.acquire()
        self._worker_state: int = RUNNING
        self._awaited = 0
        self._deferred = 0
        self._closed = False
        self._retrying = False
        self._dropped_at = float("-inf")
        self.dropped = 0
        self.worker_id = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def run(self, fn: Callable[[Connection], Any]) -> Any:
        """Queue `fn` and wait; return its result, or raise its exception, once its transaction has ended."""
        if get_ident() == self.worker_id:
            raise nested_write_error()
        waiter = cooperative.waiter()
        job = Job(fn, waiter)
        with self._mutex:
            if self._closed:
                raise StoreUnreachable("The store is closed.")
            self._jobs.append(job)
            self._awaited += 1
            # RUNNING is 0: a running worker finds the job with its next `take`, so a burst costs one wake-up.
            if self._worker_state:
                self._notify_worker()
        waiter.acquire()
        if job.error is None:
            return job.result
        try:
            raise job.error
        finally:
            # The traceback refers to this frame, and the frame to the job with the error: a cycle that would keep both
            # in memory until the next garbage collection.
            del job

    def defer(self, fn: Callable[[Connection], Any]) -> None:
        """Queue `fn` without waiting for it; wait only while the queue is full, and never on the event loop itself."""
        job = Job(fn)
        while not self._try_defer(job):
            # A call on the event loop yields. The loop itself, which queues the row of a call that ended while it
            # waited, must not block: there are at most as many such rows as calls.
            if cooperative.is_cooperative():
                cooperative.sleep(FULL_PAUSE_SECONDS)

    def _try_defer(self, job: Job) -> bool:
        """Queue the job. Return False if the queue is full; on a thread, return once it may accept more."""
        on_loop = cooperative.is_on_event_loop()
        with self._mutex:
            if self._deferred >= MAX_DEFERRED and not self._closed and get_ident() != self.worker_id:
                # The store is away: waiting for it would block callers, and memory is limited.
                if self._retrying:
                    self._count_dropped()
                    return True
                if cooperative.is_cooperative():
                    return False
                if not on_loop:
                    self._not_full.wait()
                    return False
            if self._closed:
                raise StoreUnreachable("The store is closed.")
            self._jobs.append(job)
            self._deferred += 1
            # A polling worker wakes by itself, so most deferred writes cost no system call to wake it.
            if self._worker_state == IDLE or (self._worker_state and self._deferred >= MAX_BATCH):
                self._notify_worker()
            return True

    def take(self, tick: float | None) -> list[Job] | None:
        """Return the next writes in order: none after `tick` seconds, None once the queue is closed and empty."""
        with self._mutex:
            if self._is_due():
                return self._next_batch()
            self._worker_state = POLLING if self._deferred or tick else IDLE
            timeout = DEFER_DELAY_SECONDS if self._deferred else tick
            has_deferred = self._deferred > 0
        notified = self._wakeup.acquire(timeout=-1 if timeout is None else timeout)
        with self._mutex:
            if not notified and self._worker_state == RUNNING:
                self._wakeup.acquire()  # notified between the timeout and here
            self._worker_state = RUNNING
            return self._next_batch() if has_deferred or self._is_due() else []

    def settle_deferred(self, batch: list[Job]) -> None:
        """Queue deferred writes of the batch again if the store was away; log and count those that are dropped."""
        deferred = [job for job in batch if job.waiter is None]
        failed = [job for job in deferred if job.error is not None]
        retried = [job for job in failed if self._may_retry(job)]
        reason = retried[0].error if retried else None
        with self._mutex:
            if deferred:
                self._retrying = bool(retried)
            # In front and in order: rows of the log stay in the order of their calls.
            for job in reversed(retried):
                job.error, job.topics = None, []
                self._jobs.appendleft(job)
            self._deferred += len(retried)
            for job in failed:
                if job.error is not None:
                    self._count_dropped()
            if retried:
                self._not_full.notify_all()
        for job in failed:
            if job.error is not None:
                # A store that is away explains itself.
                stack = None if isinstance(job.error, Unavailable) else job.error
                _log.error("a deferred write was dropped: %s", job.error, exc_info=stack)
        if retried:
            _log.warning("deferred writes wait for the store: %s (%d waiting)", reason, len(retried))
            # On the worker's own thread: awaited writes pause too, since the store failed a moment ago.
            sleep(RETRY_PAUSE_SECONDS)

    def check_deferred(self) -> None:
        """Raise if deferred writes wait for the store, or were dropped in the last minutes."""
        with self._mutex:
            waiting = self._deferred if self._retrying else 0
            dropped = self.dropped if monotonic() < self._dropped_at + DROP_REPORT_SECONDS else 0
        if waiting:
            raise StoreUnreachable(f"{waiting} log rows of answered calls wait for the store.")
        if dropped:
            raise StoreUnreachable(f"{dropped} log rows of answered calls were dropped.")

    def _may_retry(self, job: Job) -> bool:
        """Return whether a deferred write that failed may succeed later, and cannot have been written already."""
        if self._closed or not isinstance(job.error, Unavailable):
            return False
        if isinstance(job.error, CommitOutcomeUnknown) and not self._can_resolve(job):
            return False
        job.give_up_at = job.give_up_at or monotonic() + DEFERRED_RETRY_SECONDS
        return monotonic() < job.give_up_at

    def _count_dropped(self) -> None:
        self.dropped += 1
        self._dropped_at = monotonic()

    def wake_worker(self) -> None:
        """Make the worker return from `take`."""
        with self._mutex:
            if self._worker_state:
                self._notify_worker()

    def close(self) -> None:
        """Accept no more writes; queued ones are still taken."""
        with self._mutex:
            self._closed = True
            self._not_full.notify_all()
            if self._worker_state:
                self._notify_worker()

    def _is_due(self) -> bool:
        return self._awaited > 0 or self._deferred >= MAX_BATCH or self._closed

    def _notify_worker(self) -> None:
        self._worker_state = RUNNING
        self._wakeup.release()

    def _next_batch(self) -> list[Job] | None:
        if not self._jobs:
            return None if self._closed else []
        jobs = self._jobs
        batch = [jobs.popleft() for _ in range(min(MAX_BATCH, len(jobs)))]
        deferred = sum(job.waiter is None for job in batch)
        self._awaited -= len(batch) - deferred
        if deferred:
            self._deferred -= deferred
            self._not_full.notify(deferred)
        return batch


def nested_write_error() -> RuntimeError:
    return RuntimeError("store.write was called from inside a write; use the open connection")


def release_callers(batch: list[Job]) -> None:
    """Let every caller of the batch continue."""
    for job in batch:
        if job.waiter is not None:
            job.waiter.release()
