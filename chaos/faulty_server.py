"""Run `shopfloor` on a disk, with a clock and with webhooks that fail on demand.

`python -m chaos.faulty_server serve …` is the real program otherwise. A fault lasts while a file of its name is in the
folder `faults` of the working directory. The file `clock` contains the seconds by which the clock is wrong.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import apsw

from shopfloor.background import dispatcher
from shopfloor.cli import main
from shopfloor.domain.events import StoredEvent
from shopfloor.domain.times import SECOND
from shopfloor.gateways.webhooks import Webhook

FAULTS = Path("faults")
SLOW_WRITE_SECONDS = 0.005
SLOW_SYNC_SECONDS = 0.3
DEADLY_SHARE = 10
"""While the fault `crash` lasts, every tenth event ends the process that delivers it."""
LEASE = 2 * SECOND
"""Instead of a minute, for which deliveries of a killed process wait."""

BASE = apsw.vfs_names()[0]


class FaultyDisk(apsw.VFS):
    """The disk of every database that this process opens."""

    def __init__(self) -> None:
        super().__init__("faulty", BASE, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        return _FaultyFile(BASE, name, flags)


class _FaultyFile(apsw.VFSFile):
    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        self._fail_or_wait(SLOW_WRITE_SECONDS)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._fail_or_wait(SLOW_SYNC_SECONDS)
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._fail_or_wait(SLOW_WRITE_SECONDS)
        super().xTruncate(size)

    def _fail_or_wait(self, seconds: float) -> None:
        if (FAULTS / "read_only_disk").exists():
            raise apsw.IOError("the disk is read-only")
        if (FAULTS / "slow_disk").exists():
            time.sleep(seconds)


def set_clock_wrong() -> None:
    """Let the clock of this process be as wrong as the file says. A clock that measures durations stays right."""
    read, read_nanoseconds = time.time, time.time_ns
    time.time = lambda: read() + _read_offset()
    time.time_ns = lambda: read_nanoseconds() + _read_offset() * 1_000_000_000


def _read_offset() -> int:
    try:
        return int((FAULTS / "clock").read_text())
    except FileNotFoundError:
        return 0


def make_webhooks_deadly() -> None:
    """Let the delivery of some events end the process."""
    deliver = Webhook.__call__

    def deliver_or_die(webhook: Webhook, event: StoredEvent) -> None:
        if event.id % DEADLY_SHARE == 0 and (FAULTS / "crash").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        deliver(webhook, event)

    setattr(Webhook, "__call__", deliver_or_die)  # noqa: B010 - a plain assignment has another type for mypy


if __name__ == "__main__":
    disk = FaultyDisk()
    set_clock_wrong()
    make_webhooks_deadly()
    dispatcher.LEASE_DURATION = LEASE
    main()
