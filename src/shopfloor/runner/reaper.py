"""Start commands for the runner, and make sure that none of their processes outlives it.

    reaper.py SOCKET_FD

The runner starts this file as a separate process that uses only the standard library, because it must work after the
runner has died: `kill -9` of the runner runs no `finally`, but the kernel closes its file descriptors. For each request
on the socket, this process forks a reaper. A fork costs a tenth of a new interpreter, and each task of a crew starts
several commands.

A request is a JSON object of words, folder, environment and grace, with five file descriptors: the three standard
streams, a lifeline and a status. The runner holds the write end of the lifeline. When that end is closed, by the runner
or by the kernel, every process that the command started gets SIGTERM, and after the grace period SIGKILL. Processes
that a command leaves behind when it exits on its own are ended in the same way. Then the reaper writes the command's
exit code to the status.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

LENGTH = struct.Struct("!I")
"""The length prefix of a request, which arrives with its file descriptors."""
STATUS = struct.Struct("!i")

_STREAMS = 5
_PR_SET_CHILD_SUBREAPER = 36
_CANNOT_START = 127
_POLL_SECONDS = 5.0
_KILL_SECONDS = 10.0


def serve(requests: socket.socket) -> None:
    """Fork a reaper for each request, until the runner is gone."""
    # Ctrl-C and a closed terminal reach the whole process group, and the runner decides what they mean. Handlers
    # instead of SIG_IGN, because the commands would inherit the latter.
    for handled in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(handled, lambda *_: None)
    # Wait for them, so that they leave no zombies behind and their CPU time counts for the runner.
    signal.signal(signal.SIGCHLD, lambda *_: _reap_children())
    while True:
        header, fds, _, _ = socket.recv_fds(requests, LENGTH.size, _STREAMS)
        if not header:
            _reap_children()
            return
        for fd in fds:
            os.set_inheritable(fd, False)
        body, size = b"", LENGTH.unpack(header)[0]
        # In a loop: an exiting child interrupts even a read with MSG_WAITALL.
        while len(body) < size and (part := requests.recv(size - len(body))):
            body += part
        if os.fork() == 0:
            code = 1
            try:
                requests.close()
                code = reap(json.loads(body), *fds[:-1])
            finally:
                os.write(fds[-1], STATUS.pack(code))
                os._exit(0)
        for fd in fds:
            os.close(fd)


def reap(request: dict[str, Any], stdin: int, stdout: int, stderr: int, lifeline: int) -> int:
    """Run one command and return its exit code once all of its processes have ended."""
    os.setsid()
    # Become the parent of orphaned descendants (Linux). Without it, a daemon that forks twice becomes a child of init
    # and can no longer be found from here.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A pipe that becomes readable when a child exits, so that one select waits for that and for the lifeline.
    child_exit, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    command = Command(request, (stdin, stdout, stderr))
    # If we kept the command's standard streams, the runner would never read end of file.
    for fd in {stdin, stdout, stderr}:
        os.close(fd)
    while command.poll() is None:
        ready = select.select([lifeline, child_exit], [], [], _POLL_SECONDS)[0]
        if child_exit in ready:
            os.read(child_exit, 4096)
        if lifeline in ready and not os.read(lifeline, 64):
            break
    _end_processes(command, request["grace"])
    code = command.wait()
    return 128 - code if code < 0 else code


class Command:
    """The process of a command, in a session of its own."""

    def __init__(self, request: dict[str, Any], streams: tuple[int, ...]) -> None:
        self.code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            words: list[str] = request["words"]
            try:
                os.setsid()
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                # Python ignores these two, and a command would inherit that.
                for restored in (signal.SIGPIPE, signal.SIGXFSZ):
                    signal.signal(restored, signal.SIG_DFL)
                os.chdir(request["folder"])
                os.execvpe(words[0], words, request["environment"])  # nosec B606 # an argument vector, no shell
            except OSError as error:
                os.write(2, f"{words[0]}: {error.strerror}\n".encode())
            finally:
                os._exit(_CANNOT_START)

    def poll(self, options: int = os.WNOHANG) -> int | None:
        """Return the exit code, negative after a signal, or None while the process is running."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def wait(self) -> int:
        """Wait for the end of the process and return its exit code."""
        code = self.poll(0)
        assert code is not None
        return code


def _end_processes(command: Command, grace: float) -> None:
    # Most commands leave nothing behind, and reading /proc would take longer than many of them.
    if command.poll() is not None and not _reap_children():
        return
    for sign, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, _KILL_SECONDS)):
        deadline = time.monotonic() + seconds
        signalled: set[int] = set()
        with suppress(ProcessLookupError, PermissionError):
            if command.poll() is None:
                os.killpg(command.pid, sign)
        while time.monotonic() < deadline:
            own = {command.pid} if command.poll() is None else set()
            alive = own | _find_descendants(os.getpid())
            if not alive:
                return
            # Looked up again each round: a process may fork while the others are being signaled.
            for pid in alive - signalled:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, sign)
            signalled |= alive
            # Adopted children must be reaped, or they stay as zombies. The command itself is left to its own object,
            # which needs its exit code.
            for pid in alive - {command.pid}:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.01)


def _reap_children() -> bool:
    """Reap the children that have ended. Return whether any is left, including adopted orphans."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _find_descendants(ancestor: int) -> set[int]:
    """Return every descendant of this process; none on systems without /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The second field is the program's name in parentheses, which may itself contain spaces and parentheses.
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
    serve(socket.socket(fileno=int(sys.argv[1])))
