"""Run commands in processes of their own, without the seconds that each would take to import everything.

A fork server imports the whole program once and forks for each request. The forked process is a `shopfloor` like any
other: it has its own process id, environment, streams and exit code, and can be signalled and killed.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

MAX_REQUEST_BYTES = 1 << 20


class Command:
    """A running command, with the part of the interface of Popen that tests use."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self._arguments = list(arguments)
        out, child_out = os.pipe()
        err, child_err = os.pipe()
        status, child_status = os.pipe()
        child_ends = [child_out, child_err, child_status]
        request = json.dumps(
            {"arguments": self._arguments, "environment": dict(environment), "folder": str(folder)}
        ).encode()
        assert len(request) < MAX_REQUEST_BYTES
        with _request_lock:
            socket.send_fds(_start_fork_server(), [request], child_ends)
        for descriptor in child_ends:
            os.close(descriptor)
        self.stdout: IO[str] = os.fdopen(out, "r", encoding="utf-8")
        self.stderr: IO[str] = os.fdopen(err, "r", encoding="utf-8")
        self._status = os.fdopen(status, "rb", buffering=0)
        self.pid = int(self._read_line())
        self.returncode: int | None = None
        self._readers: list[_Reader] = []

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self._arguments, timeout or 0)
            self.returncode = os.waitstatus_to_exitcode(int(self._read_line()))
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the command to end and return the rest of its output and errors."""
        self._readers = self._readers or [_Reader(self.stdout), _Reader(self.stderr)]
        for reader in self._readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self._arguments, timeout or 0)
        self.wait(timeout)
        out, err = (reader.text for reader in self._readers)
        return out, err

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read_line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            byte = self._status.read(1)
            assert byte, "the process that watches the command is gone"
            line += byte
        return line


class _Reader(threading.Thread):
    def __init__(self, stream: IO[str]) -> None:
        super().__init__(daemon=True)
        self.stream, self.text = stream, ""
        self.start()

    def run(self) -> None:
        self.text = self.stream.read()
        self.stream.close()


_request_lock = threading.Lock()


@cache
def _start_fork_server() -> socket.socket:
    """Start the fork server, which ends with this process, and return its socket."""
    ours, child_ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MAX_REQUEST_BYTES)
    path = os.pathsep.join(path for path in sys.path if path)
    with child_ends:
        process = subprocess.Popen(
            [sys.executable, __file__, str(child_ends.fileno())],
            pass_fds=[child_ends.fileno()],
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path},
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# The fork server


def _serve(requests: socket.socket) -> list[str]:
    """Fork for each request and return its arguments in the new process. Exit when the socket is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, 3)
        _reap_children()
        if not request:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            return _fork_command(json.loads(request), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _reap_children() -> None:
    """Reap the children that have ended, so that their processor time counts as ours."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _fork_command(request: dict[str, object], out: int, err: int, status: int) -> list[str]:
    """Fork the command, return its arguments in it, and report its exit status from the process in between."""
    pid = os.fork()
    if pid:
        for descriptor in (out, err):
            os.close(descriptor)
        os.write(status, b"%d\n" % pid)
        ended = os.waitpid(pid, 0)[1]
        with open(status, "wb") as report:
            report.write(b"%d\n" % ended)
        os._exit(0)
    os.close(status)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for at, descriptor in ((1, out), (2, err)):
        os.dup2(descriptor, at)
        os.close(descriptor)
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", closefd=False), encoding="utf-8", line_buffering=True)
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    os.chdir(str(request["folder"]))
    return list(request["arguments"])  # type: ignore[call-overload]


def _run_main(main: Callable[[], None]) -> int:
    try:
        main()
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    return 0


def _exit(code: int) -> None:
    """Exit without tearing down the imported modules, which takes longer than most commands."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    from shopfloor import cli
    from shopfloor.runner import crew_main, main, prompt, run_store
    from shopfloor.transports import server

    assert all((run_store, prompt, main, crew_main, server))
    gc.freeze()
    sys.argv = ["shopfloor", *_serve(socket.socket(fileno=int(sys.argv[1])))]
    _exit(_run_main(cli.main))
