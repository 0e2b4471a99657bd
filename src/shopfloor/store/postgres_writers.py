"""Group commit on PostgreSQL: a few writers run the writes of all calls of this process.

A writer takes its share of the waiting writes, runs each in a savepoint of one transaction and commits once. Without
it, 64 callers ran 64 transactions that aborted each other, and the rate fell with the number of callers.

The rules:

- No caller is answered before the commit that holds its write.
- A write that loses a conflict, or waits too long for another transaction's lock, is rolled back to its savepoint and
  runs again alone. The others of its batch commit without it.
- If the connection is lost before COMMIT, each write runs again alone. If it is lost at COMMIT, the outcome of each is
  unknown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Any

from psycopg import errors as pg

from shopfloor.errors import CommitOutcomeUnknown, ShopfloorError, StoreFailed, StoreUnreachable
from shopfloor.store import cooperative
from shopfloor.store.postgres_connection import RETRYABLE, PostgresConnection, Session
from shopfloor.store.protocol import Connection
from shopfloor.store.write_queue import Job, release_callers

WRITERS = 4
"""Their round trips overlap. Measured at 64 callers: 1.5 times the rate of two, at 1.12 times the CPU."""
MAX_BATCH = 30
"""Two savepoints per write: above 64 subtransactions PostgreSQL has to look them up outside shared memory."""

# A write that waits for a lock holds up every other write of its batch, so it gives up early and runs alone.
_GIVE_UP_EARLY = b"SET LOCAL lock_timeout = '100ms'"
_RETRYABLE = (*RETRYABLE, pg.LockNotAvailable)


class WriterPool:
    """The threads that write, and the queue that they share."""

    def __init__(
        self,
        borrow: Callable[[], Session],
        give_back: Callable[[Session], None],
        begin: Callable[[], Sequence[bytes]],
        *,
        run_alone: Callable[[Callable[[Connection], Any]], Any],
        on_commit: Callable[[int, Sequence[str]], None],
        on_thread_start: Callable[[], None],
    ) -> None:
        """Take `run_alone`, which runs a write in a transaction of its own, and `on_commit`, which gets the number of
        writes of a batch and their topics."""
        self._borrow = borrow
        self._give_back = give_back
        self._begin = begin
        self._run_alone = run_alone
        self._on_commit = on_commit
        self._on_thread_start = on_thread_start
        self._jobs: deque[Job] = deque()
        self._changed = Condition()
        self._idle = 0
        self._closed = False
        self._threads = [Thread(target=self._run_loop, name="shopfloor-writer", daemon=True) for _ in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        return len(self._jobs)

    def run(self, fn: Callable[[Connection], Any]) -> Any:
        """Queue `fn` and wait; return its result, or raise its exception, once its transaction has ended."""
        waiter = cooperative.waiter()
        job = Job(fn, waiter)
        with self._changed:
            if self._closed:
                raise StoreUnreachable("The store is closed.")
            self._jobs.append(job)
            self._changed.notify()
        waiter.acquire()
        if job.error is None:
            return job.result
        try:
            raise job.error
        finally:
            # The traceback refers to this frame, and the frame to the job with the error: a cycle that would keep both
            # in memory until the next garbage collection.
            del job

    def close(self) -> None:
        """Return after everything queued was written and answered."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def write(self, batch: list[Job]) -> None:
        """Run the writes in one transaction if possible, and set the outcome of each. At most MAX_BATCH."""
        try:
            if len(batch) == 1 or not self._write_batch(batch):
                self._run_each_alone(batch)
        except Exception as error:  # noqa: BLE001 - callers must be answered, and the thread must live
            for job in batch:
                job.error = job.error or _copy_error(error)

    def _run_loop(self) -> None:
        self._on_thread_start()
        while batch := self._take():
            self.write(batch)
            release_callers(batch)

    def _take(self) -> list[Job]:
        """Wait for writes and return this writer's share of them; none once the pool is closed."""
        with self._changed:
            while not self._jobs:
                if self._closed:
                    return []
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            # An equal share, rounded up: each idle writer was notified of a write too, and takes the rest.
            share = -(-len(self._jobs) // (self._idle + 1))
            return [self._jobs.popleft() for _ in range(min(share, MAX_BATCH))]

    def _write_batch(self, batch: list[Job]) -> bool:
        """Run all writes in one transaction, and the losers of conflicts alone. Return False if nothing was written."""
        raw = self._borrow()
        try:
            losers = self._run_jobs(raw, batch)
            if losers is None:
                return False
            written = [job for job in batch if job.error is None and job not in losers]
            try:
                PostgresConnection(raw).commit_batch()
            except CommitOutcomeUnknown as error:
                for job in written:
                    job.error = _copy_error(error)
            except ShopfloorError:
                return False
            else:
                self._on_commit(len(written), [topic for job in written for topic in job.topics])
        finally:
            PostgresConnection(raw).rollback()
            self._give_back(raw)
        self._run_each_alone(losers)
        return True

    def _run_jobs(self, raw: Session, batch: list[Job]) -> list[Job] | None:
        """Run each write in a savepoint and return those that lost a conflict; None if the connection is lost."""
        losers = []
        held: Sequence[bytes] = (*self._begin(), _GIVE_UP_EARLY)
        for job in batch:
            conn = PostgresConnection(raw, [*held, b"SAVEPOINT job"], _RETRYABLE)
            job.error, job.topics = None, conn.topics
            try:
                job.result = job.fn(conn)
                conn.flush()
                conn.check_intact()
            except BaseException as error:  # noqa: BLE001 - it is raised where the caller waits
                job.error = error
            if raw.closed:
                return None
            if conn.lost is not None:
                losers.append(job)
            # The next job sends RELEASE with its first statement, so that it costs no round trip. A job that sent
            # nothing leaves `held` unchanged: its commands still have to be sent.
            if not conn.is_unused:
                if job.error is not None or conn.lost is not None:
                    conn.roll_back_to(b"job")
                    held = ()
                else:
                    held = (b"RELEASE job",)
        return losers

    def _run_each_alone(self, jobs: list[Job]) -> None:
        for position, job in enumerate(jobs):
            job.error = None
            try:
                job.result = self._run_alone(job.fn)
            except StoreUnreachable as error:
                # The others would wait for the same server, one after the other.
                for other in jobs[position:]:
                    other.error = _copy_error(error)
                return
            except BaseException as error:  # noqa: BLE001 - it is raised where the caller waits
                job.error = error


def _copy_error(error: Exception) -> Exception:
    """Return a new exception for each caller: raising one changes its traceback."""
    copy = (
        type(error)(error.message) if isinstance(error, ShopfloorError) else StoreFailed(f"The store failed: {error}")
    )
    copy.__cause__ = error
    return copy
