"""The keeper: starts one command and sees to it that nothing of it is left, whatever becomes of the runner.

    keeper.py DESCRIPTOR GRACE COMMAND [ARGUMENT …]

Run as a file of its own, on the standard library alone. The runner holds the other end of DESCRIPTOR: when that is
closed, because the runner wants so or is no more, everything that the command started is ended, politely first and
after GRACE seconds for good. When the command ends by itself, so does what it left behind. The exit code of the
keeper is that of the command.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess  # nosec B404: starting a command is what it is for
import sys
import time
from contextlib import suppress
from pathlib import Path

_SUBREAPER = 36
_CANNOT_START = 127


def main(arguments: list[str]) -> int:
    """The command's exit code, after everything of it has ended."""
    leash, grace, command = int(arguments[0]), float(arguments[1]), arguments[2:]
    _adopt_orphans()
    stirred = _on_child_exit()
    try:
        child = subprocess.Popen(command, start_new_session=True)  # nosec B603: an argument vector, no shell
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return _CANNOT_START
    _let_go_of_the_streams()
    while child.poll() is None:
        ready, _, _ = select.select([leash, stirred], [], [], 5.0)
        if stirred in ready:
            os.read(stirred, 4096)
        if leash in ready and not os.read(leash, 64):
            break
    _end(child, grace)
    code = child.wait()
    return 128 - code if code < 0 else code


def _adopt_orphans() -> None:
    """Whatever is started below stays below, also when those in between are gone."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _on_child_exit() -> int:
    """A descriptor that stirs when a child ends; other signals are for the runner to judge."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(ignored, lambda *_: None)
    return reading


def _let_go_of_the_streams() -> None:
    """The command's streams are its own: the runner must see their end."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _end(child: subprocess.Popen[bytes], grace: float) -> None:
    for sign, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 10.0)):
        until = time.monotonic() + seconds
        told: set[int] = set()
        with suppress(ProcessLookupError, PermissionError):
            if child.poll() is None:
                os.killpg(child.pid, sign)
        while (alive := _alive(child)) and time.monotonic() < until:
            for pid in alive - told:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, sign)
            told |= alive
            _reap(child)
            time.sleep(0.01)


def _reap(child: subprocess.Popen[bytes]) -> None:
    """Take leave of adopted ones that have ended; the command itself is the business of its own object."""
    for pid in _below(os.getpid()):
        if pid != child.pid:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _alive(child: subprocess.Popen[bytes]) -> set[int]:
    own = {child.pid} if child.poll() is None else set()
    return own | _below(os.getpid())


def _below(ancestor: int) -> set[int]:
    """Every process that descends from this one, where the system tells."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found: set[int] = set()
    waiting = [ancestor]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            found.add(pid)
            waiting.append(pid)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
