"""Processes: which of them live, and what the dead ones left behind."""

from __future__ import annotations

import os
import socket

from shopfloor.domain.times import SECOND
from shopfloor.repositories.processes import Process
from shopfloor.repositories.work import Work

SILENCE = 30 * SECOND
"""A process that was silent for so long is gone, wherever it ran."""


def register(work: Work, kind: str, url: str | None) -> int:
    """The number of this process."""
    return work.processes.add(kind, socket.gethostname(), os.getpid(), url, work.now)


def bury(work: Work) -> list[Process]:
    """The processes that were found gone, and are forgotten now."""
    gone = [process for process in work.processes.all() if process.id != work.process and _gone(process, work.now)]
    for process in gone:
        work.processes.remove(process.id)
    return gone


def lives(work: Work, id: int) -> bool:
    """Whether the process is still there."""
    return any(process.id == id and not _gone(process, work.now) for process in work.processes.all())


def _gone(process: Process, now: int) -> bool:
    if now - process.heartbeat_at > SILENCE:
        return True
    return process.host == socket.gethostname() and not _runs(process.pid)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
