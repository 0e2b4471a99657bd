"""Housekeeping: the heartbeat of this process, recovery from dead ones, and retention."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from shopfloor.background.dispatcher import LONGEST_PAUSES
from shopfloor.background.log_sealer import LogSealer
from shopfloor.domain.principals import OPERATOR
from shopfloor.domain.times import DAY, MINUTE
from shopfloor.errors import ShopfloorError, StoreBusy
from shopfloor.gateways.archive import Archive
from shopfloor.repositories.uow import Database, UnitOfWork
from shopfloor.usecases import boards, decisions, processes, todos
from shopfloor.usecases.retention import EmbeddingPurge, MailPurge, RetentionRules, purge_log, purge_transcripts

ORPHAN_RETENTION = DAY
HEARTBEAT_SECONDS = 5.0
MAX_HEARTBEAT_GAP_SECONDS = 30.0
"""Other processes reap a process that has sent no heartbeat for this long."""
BATCH_ROWS = 200
"""Rows deleted per transaction. A task of an epic takes 60 µs, during which calls wait for the writer."""
STATISTICS_INTERVAL_BEATS = 720
"""Once an hour, and at the start: a database that was filled by an earlier version has no statistics."""

DEFAULT_RULES = RetentionRules()

_log = logging.getLogger("shopfloor.housekeeping")


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """An operation that runs every `every` heartbeats until a batch is not full: on the leading replica, or
    everywhere."""

    name: str
    every: int
    action: Callable[[UnitOfWork], object]
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class PeriodicJob:
    """An operation with its own units of work, so that it does not hold the writer. It runs until it returns 0."""

    name: str
    every: int
    run: Callable[[Database], int]


def list_periodic_jobs(archive: Archive, rules: RetentionRules) -> list[PeriodicJob]:
    """Return the jobs of every server: sealing the log and deleting expired rows."""
    mail = MailPurge()
    embeddings = EmbeddingPurge()
    return [
        PeriodicJob("seals of the log", 12, LogSealer().run),
        PeriodicJob("old log rows", 12, lambda database: purge_log(database, archive, rules)),
        PeriodicJob("old transcripts", 12, lambda database: purge_transcripts(database, archive, rules)),
        PeriodicJob("old mail", 720, lambda database: mail.run(database, archive, rules)),
        PeriodicJob("unused embeddings", 720, embeddings.run),
    ]


def list_periodic_tasks(subscribers: Sequence[str], rules: RetentionRules = DEFAULT_RULES) -> list[PeriodicTask]:
    """Return the tasks of every server. Deliveries to any other subscriber become dead letters."""
    return [
        # Only a process on the same machine can see at once that another is dead.
        PeriodicTask("processes", 1, processes.reap_dead, everywhere=True),
        # Written while the machine's clock was ahead: with the clock an hour ahead, they would be delivered an hour
        # late.
        PeriodicTask("early deliveries", 1, lambda uow: uow.outbox.make_due(LONGEST_PAUSES, uow.now, BATCH_ROWS)),
        PeriodicTask("open calls", 1, lambda uow: decisions.close_left_open(uow, BATCH_ROWS)),
        PeriodicTask("kept answers", 12, lambda uow: uow.idempotency.purge(uow.now - rules.answers, BATCH_ROWS)),
        PeriodicTask("call windows", 12, lambda uow: uow.call_windows.purge(uow.now - MINUTE, BATCH_ROWS)),
        PeriodicTask("lists", 12, lambda uow: todos.purge_deleted(uow, BATCH_ROWS)),
        PeriodicTask("deleted tasks", 12, lambda uow: boards.purge_deleted(uow, BATCH_ROWS)),
        PeriodicTask("page sessions", 12, lambda uow: uow.tokens.purge_page_sessions(uow.now - DAY, BATCH_ROWS)),
        PeriodicTask("old events", 12, _EventPurge(rules.events).run),
        # After a day, not at once: another replica may have a subscriber that this one lacks.
        PeriodicTask(
            "orphaned deliveries",
            720,
            lambda uow: uow.outbox.give_up_orphans(subscribers, uow.now - ORPHAN_RETENTION, uow.now, BATCH_ROWS),
        ),
    ]


class _EventPurge:
    """Delete old events. It remembers where events without dead letters start, and reads the earlier ones only once."""

    def __init__(self, retention: int) -> None:
        self._retention = retention
        self._after = 0

    def run(self, uow: UnitOfWork) -> int:
        examined, self._after = uow.outbox.purge(uow.now - self._retention, BATCH_ROWS, self._after)
        return examined


class Housekeeper:
    """One thread that sends heartbeats and runs the periodic tasks."""

    def __init__(
        self,
        database: Database,
        tasks: Sequence[PeriodicTask],
        jobs: Sequence[PeriodicJob] = (),
        synchronise_clock: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._registration = database.registration
        self._synchronise_clock = synchronise_clock
        self.tasks = tasks
        self.jobs = jobs
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._beat_at = time.monotonic()
        self._register: Callable[[UnitOfWork], int]

    @property
    def running(self) -> bool:
        """True while the thread lives and sends heartbeats."""
        is_recent = time.monotonic() < self._beat_at + MAX_HEARTBEAT_GAP_SECONDS
        return self._thread is not None and self._thread.is_alive() and is_recent

    def start(self, kind: str, url: str | None = None) -> None:
        """Register this process and start the thread."""
        self._register = partial(processes.register_process, kind=kind, url=url)
        self._registration.set(self._database.write(self._register, OPERATOR))
        self._thread = threading.Thread(target=self._run_loop, name="shopfloor-housekeeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        process = self._registration.number
        if process is not None:
            try:
                self._database.write(lambda uow: uow.processes.remove(process), OPERATOR)
            except StoreBusy as error:
                # Others will reap this process; queued writes must still be written.
                _log.warning("process %s is not removed: %s", process, error)
            self._registration.set(None)

    def _run_loop(self) -> None:
        for beat in count():
            # First, and before every round: others reap a process after 30 s without a heartbeat.
            self._log_errors("heartbeat", self.heartbeat)
            self._log_errors("clock", self._synchronise_clock)
            leads = self._database.store.try_lead(self._database.workspace)
            for task in self.tasks:
                if beat % task.every == 0 and (leads or task.everywhere):
                    self._log_errors(task.name, partial(self.run, task))
            for job in self.jobs:
                if beat % job.every == 0 and leads:
                    self._log_errors(job.name, partial(self.run_job, job))
            if beat % STATISTICS_INTERVAL_BEATS == 0:
                self._log_errors("statistics", self._database.store.update_statistics)
            if self._stopping.wait(HEARTBEAT_SECONDS):
                return

    def _log_errors(self, name: str, action: Callable[[], object]) -> None:
        try:
            action()
        except ShopfloorError as error:
            _log.warning("%s: %s", name, error)
        except Exception:  # noqa: BLE001 - without this thread, other processes reap this one as dead
            _log.exception("%s failed", name)

    def heartbeat(self) -> None:
        """Record a heartbeat. A process that others reaped as dead registers again under a new number."""
        process = self._registration.number
        assert process is not None
        if not self._database.write(lambda uow: processes.record_heartbeat(uow, process), OPERATOR):
            self._registration.set(self._database.write(self._register, OPERATOR))
        self._beat_at = time.monotonic()

    def run(self, task: PeriodicTask) -> None:
        """Run a task until nothing is left to do, a batch at a time."""
        # Each batch is a separate transaction, so that calls get the writer in between.
        while self._database.write(task.action, OPERATOR) == BATCH_ROWS and not self._stopping.is_set():
            pass

    def run_job(self, job: PeriodicJob) -> None:
        """Run a job until nothing is left to do, without stopping the heartbeat."""
        while job.run(self._database) and not self._stopping.is_set():
            if time.monotonic() > self._beat_at + HEARTBEAT_SECONDS:
                self.heartbeat()
