"""The ancestors and descendants of a process, and the identity of a process."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def read_namespace() -> str:
    """Return the scope in which this process's pids are valid: a machine's boot and a PID namespace on it.

    Two containers can have the same host name, and the same pids for different processes.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname()


def read_start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot, or None if unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
        return int(stat.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def is_running(pid: int, start_ticks: int | None) -> bool:
    """Return whether a process of this namespace still runs and its pid was not reused."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # It exists, and belongs to another user.
        pass
    return start_ticks is None or read_start_ticks(pid) in (None, start_ticks)


def list_ancestors() -> list[int]:
    """Return the pids of the processes above this one, the parent first; only the parent on systems without /proc."""
    ancestors = [os.getppid()]
    with suppress(OSError, ValueError, IndexError):
        while ancestors[-1] > 1:
            stat = Path(f"/proc/{ancestors[-1]}/stat").read_text("utf-8", errors="replace")
            # The second field is the program's name in parentheses, which may itself have spaces and parentheses.
            ancestors.append(int(stat.rpartition(")")[2].split()[1]))
    return ancestors


def list_descendants(pid: int) -> list[int]:
    """Return the pids of the processes below a process, parents before their children; none without /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            stat = (entry / "stat").read_text("utf-8", errors="replace")
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found[1:]
