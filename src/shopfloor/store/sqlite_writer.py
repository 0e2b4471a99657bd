"""The one thread that writes to SQLite, with group commit.

It takes all waiting writes, runs each in a savepoint, commits once, then answers them all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Thread, get_ident

import apsw

from shopfloor.errors import StoreFailed
from shopfloor.store.epoch import TOPIC, Epoch
from shopfloor.store.jobs import Job, Jobs, answer, log_failures
from shopfloor.store.listeners import LOOK, Listeners
from shopfloor.store.sqlite_connection import SqliteConnection, translated

POLL = 0.02
CHECKPOINT_PAGES = 1_000
TRUNCATE_PAGES = 16_000
BUSY_MS = 30_000

_log = logging.getLogger("shopfloor.store")


class SqliteWriter:
    def __init__(self, raw: apsw.Connection, epoch: Epoch) -> None:
        self.jobs = Jobs()
        self.listeners = Listeners()
        self.observers: tuple[Callable[[int], None], ...] = ()
        self.commits = 0
        self.writes = 0
        self.wal_pages = 0
        self._raw = raw
        self._epoch = epoch
        self._run = raw.cursor().execute
        self._sizes: list[int] = []
        self._checkpointed = 0
        self._version = self._data_version()
        raw.set_wal_hook(self._note_wal)
        self._thread = Thread(target=self._work, name="shopfloor-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Return after everything queued was written and answered."""
        if get_ident() == self.jobs.taker_ident:
            raise RuntimeError("store.close was called from inside a write")
        self.jobs.close()
        self._thread.join()

    def _work(self) -> None:
        self.jobs.taker_ident = get_ident()
        while (batch := self.jobs.take(POLL if self.listeners else None)) is not None:
            try:
                if batch:
                    self._write(batch)
                if self.listeners:
                    self._look_for_others()
            except Exception:  # noqa: BLE001 - the thread must live
                _log.exception("the writer stumbled")

    def _write(self, batch: list[Job]) -> None:
        try:
            self._commit(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, callers must be answered and the thread must live
            self._undo()
            for job in batch:
                job.error = job.error or _own(error)
        if any(TOPIC in job.topics for job in batch):
            self._epoch.change()
        answer(batch)
        log_failures(batch)
        self._publish(batch)
        self._checkpoint()

    def _commit(self, batch: list[Job]) -> None:
        self._run("BEGIN IMMEDIATE")
        if len(batch) == 1:
            self._alone(batch[0])
        else:
            self._together(batch)

    def _alone(self, job: Job) -> None:
        """Run one job in the transaction at hand, and end it."""
        self._call(job)
        if job.error is None:
            try:
                self._run("COMMIT")
            except apsw.Error as error:
                job.error = _own(error)
            else:
                self._sizes.append(1)
        self._undo()

    def _together(self, batch: list[Job]) -> None:
        """Run all jobs in the transaction at hand; if that is lost, each in one of its own."""
        for job in batch:
            self._run("SAVEPOINT job")
            self._call(job)
            if job.error is not None:
                if not self._raw.in_transaction:
                    return self._again([other for other in batch if other is not job])
                self._run("ROLLBACK TO job")
            self._run("RELEASE job")
        try:
            self._run("COMMIT")
        except apsw.Error as error:
            _log.warning("a commit of %d writes failed, running them one by one: %s", len(batch), error)
            self._undo()
            self._again(batch)
        else:
            self._sizes.append(len(batch))

    def _again(self, batch: list[Job]) -> None:
        for job in batch:
            job.error, job.topics = None, []
            try:
                self._run("BEGIN IMMEDIATE")
            except apsw.Error as error:
                job.error = _own(error)
            else:
                self._alone(job)

    def _call(self, job: Job) -> None:
        conn = SqliteConnection(self._raw, self._run, job.topics)
        try:
            job.result = job.fn(conn)
            conn.settle()
        except BaseException as error:  # noqa: BLE001 - it is raised where the caller waits
            job.error = error
        conn.end()

    def _undo(self) -> None:
        if self._raw.in_transaction:
            try:
                self._run("ROLLBACK")
            except apsw.Error as error:
                _log.warning("rolling back failed: %s", error)

    def _publish(self, batch: list[Job]) -> None:
        for size in self._sizes:
            self.commits += 1
            self.writes += size
            for observer in self.observers:
                observer(size)
        self._sizes.clear()
        if self.listeners:
            topics = frozenset(topic for job in batch if job.error is None for topic in job.topics)
            if topics:
                self.listeners.tell(topics)

    def _look_for_others(self) -> None:
        """Tell listeners when another process has committed: nothing else changes the version seen here."""
        version = self._data_version()
        if version != self._version:
            self._version = version
            self.listeners.tell(LOOK)

    def _data_version(self) -> int:
        version: int = self._run("PRAGMA data_version").get
        return version

    def _note_wal(self, _: apsw.Connection, __: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Move the log's pages into the database, after the callers were answered."""
        if self.wal_pages < self._checkpointed:
            self._checkpointed = 0
        if self.wal_pages - self._checkpointed < CHECKPOINT_PAGES:
            return
        self._checkpointed = self.wal_pages
        truncate = self.wal_pages >= TRUNCATE_PAGES
        self._raw.set_busy_timeout(0)  # readers are never waited for
        try:
            mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if truncate else apsw.SQLITE_CHECKPOINT_PASSIVE
            self._raw.wal_checkpoint(mode=mode)
        except apsw.BusyError:
            pass
        except apsw.Error as error:
            _log.warning("checkpoint failed: %s", error)
        finally:
            self._raw.set_busy_timeout(BUSY_MS)


def _own(error: Exception) -> Exception:
    """An exception of its own for each caller, as raising one changes it."""
    failure = translated(error) if isinstance(error, apsw.Error) else StoreFailed(f"The store failed: {error}")
    failure.__cause__ = error
    return failure
