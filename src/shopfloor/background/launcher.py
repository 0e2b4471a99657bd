"""Start the runs that people requested from the server, when they are due."""

from __future__ import annotations

import logging
import socket
import subprocess  # nosec B404 # the type of the started processes
import threading
from collections.abc import Callable
from functools import partial

from shopfloor.background.topics import TopicHub
from shopfloor.domain.launches import TOPIC, Launch
from shopfloor.domain.principals import OPERATOR
from shopfloor.domain.times import SECOND
from shopfloor.errors import ShopfloorError
from shopfloor.gateways.run_processes import RunProcesses
from shopfloor.repositories.uow import Database, UnitOfWork
from shopfloor.usecases import launches

MAX_WAIT_SECONDS = 60.0
"""A clock that was set forward is noticed within this time."""
REAP_SECONDS = 1.0
COULD_NOT_START = (1, 2)
"""Exit codes of `shopfloor run` if no run was driven."""

_log = logging.getLogger("shopfloor.launcher")


class Launcher:
    """One thread that claims due launches, starts their processes, and records those that could not start."""

    def __init__(self, database: Database, topics: TopicHub, processes: RunProcesses) -> None:
        self._database = database
        self._topics = topics
        self._processes = processes
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start the thread."""
        self._unsubscribe = self._topics.subscribe(lambda _: self._wake.set(), TOPIC)
        self._thread = threading.Thread(target=self._run_loop, name="shopfloor-launcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. The runs that it started continue."""
        if self._thread is None or self._unsubscribe is None:
            return
        self._unsubscribe()
        self._stopping = True
        self._wake.set()
        self._thread.join()

    def _run_loop(self) -> None:
        while not self._stopping:
            # Cleared before the query: a launch that is added during the round ends the next wait at once.
            self._wake.clear()
            wait = MAX_WAIT_SECONDS
            try:
                self._launch_due()
                self._reap_children()
                wait = min(wait, self._database.read(self._seconds_to_next, OPERATOR))
            except ShopfloorError as error:
                _log.warning("launches: %s", error)
            except Exception:  # noqa: BLE001 - a later launch must still be started
                _log.exception("launches failed")
            self._wake.wait(min(wait, REAP_SECONDS) if self._children else wait)

    def _seconds_to_next(self, uow: UnitOfWork) -> float:
        due_at = uow.launches.find_next_due()
        return MAX_WAIT_SECONDS if due_at is None else max(0.0, (due_at - uow.now) / SECOND)

    def _launch_due(self) -> None:
        for launch in self._database.write(launches.claim_due, OPERATOR):
            try:
                child = self._processes.start(launch.id, launch.run, launch.spec, launch.options)
            except OSError as error:
                self._record_problem(launch.id, f"the process could not be started: {error}")
                continue
            self._children[launch.id] = child
            self._record_started(launch, child.pid)

    def _reap_children(self) -> None:
        for id, child in list(self._children.items()):
            # A child that is never polled stays a zombie for as long as the server lives.
            code = child.poll()
            if code is None:
                continue
            del self._children[id]
            if code in COULD_NOT_START:
                self._record_problem(
                    id, self._processes.read_output(id) or f"shopfloor run ended with exit code {code}"
                )

    def _record_started(self, launch: Launch, pid: int) -> None:
        record = partial(launches.record_started, id=launch.id, pid=pid, host=socket.gethostname())
        self._database.write(record, OPERATOR)

    def _record_problem(self, id: int, problem: str) -> None:
        self._database.write(partial(launches.record_problem, id=id, problem=problem), OPERATOR)
