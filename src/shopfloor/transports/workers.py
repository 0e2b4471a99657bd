"""Several server processes on one machine, which share a listening socket: `shopfloor serve --workers N`.

The parent process only watches the workers. It restarts a worker that died, forwards signals, and has no threads, so
that it may fork at any time. Workers end with it, even if it is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

RESTART_PAUSE_SECONDS = 0.5

_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD})

Run = Callable[[int, Callable[[], None]], None]
"""Takes the worker's number, and a function to call once it is ready."""


def run_workers(count: int, run: Run) -> None:
    """Run `count` workers until a signal. In a worker, return or raise as `run` does."""
    # Blocked signals wait until `sigwait` takes them, so that none interrupts a fork.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    watcher = _Watcher(run)
    # The first one migrates the database and writes the operator's token; the others find both.
    if not watcher.start(0, wait=True):
        return
    for number in range(1, count):
        if not watcher.start(number, wait=False):
            return
    watcher.watch()


class _Watcher:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._workers: dict[int, int] = {}
        # Nothing is ever written to it: workers see end of file when the watcher is gone.
        self._lifeline = os.pipe()

    def start(self, number: int, *, wait: bool) -> bool:
        """Start a worker; with `wait`, wait until it is ready. Return False in the worker, once it has ended."""
        ready_reader, ready_writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(ready_reader)
            # Only the watcher may keep the write end open, or its death would close nothing.
            os.close(self._lifeline[1])
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            threading.Thread(target=_end_with, args=(self._lifeline[0],), daemon=True).start()
            self._run(number, partial(_report_ready, ready_writer))
            return False
        os.close(ready_writer)
        self._workers[pid] = number
        # End of file without a byte means that the worker ended before it was ready.
        is_ready = not wait or os.read(ready_reader, 1) == b"x"
        os.close(ready_reader)
        if not is_ready:
            # The worker has printed why.
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        return True

    def watch(self) -> None:
        """Restart workers that die, until a signal; then end all and return."""
        while True:
            received = signal.sigwait(_SIGNALS)
            if received != signal.SIGCHLD:
                return self._stop()
            for number in self._reap():
                sys.stderr.write(f"worker {number} ended; starting it again\n")
                time.sleep(RESTART_PAUSE_SECONDS)
                if not self.start(number, wait=False):
                    return None

    def _reap(self) -> list[int]:
        """Return the numbers of the workers that have ended."""
        ended = []
        # Signals are not queued: one SIGCHLD may stand for several workers.
        while self._workers:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended.append(self._workers.pop(pid))
        return ended

    def _stop(self) -> None:
        """End all workers; at once on the second signal."""
        self._send(signal.SIGTERM)
        while self._workers:
            if signal.sigwait(_SIGNALS) == signal.SIGCHLD:
                self._reap()
            else:
                self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        for pid in self._workers:
            os.kill(pid, number)


def _report_ready(writer: int) -> None:
    # The watcher waits for the first worker only.
    with suppress(BrokenPipeError):
        os.write(writer, b"x")
    os.close(writer)


def _end_with(lifeline: int) -> None:
    """End this worker cleanly once the watcher is gone."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)
