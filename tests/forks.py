"""Commands as processes of their own, without the seconds that each would take to import everything.

A process that has imported the whole program waits for orders and forks for each. What it forks is a `shopfloor`
like any other: with a process id, an environment, streams and an exit code of its own, to be signalled and killed.
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

_ORDER = 1 << 20


class Command:
    """A command under way; the part of Popen that tests use."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self._words = list(words)
        out, their_out = os.pipe()
        err, their_err = os.pipe()
        fate, their_fate = os.pipe()
        theirs = [their_out, their_err, their_fate]
        order = json.dumps({"words": self._words, "environment": dict(environment), "folder": str(folder)}).encode()
        assert len(order) < _ORDER
        with _ordering:
            socket.send_fds(_mother(), [order], theirs)
        for descriptor in theirs:
            os.close(descriptor)
        self.stdout: IO[str] = os.fdopen(out, "r", encoding="utf-8")
        self.stderr: IO[str] = os.fdopen(err, "r", encoding="utf-8")
        self._fate = os.fdopen(fate, "rb", buffering=0)
        self.pid = int(self._told())
        self.returncode: int | None = None
        self._readers: list[_Reader] = []

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._fate], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self._words, timeout or 0)
            self.returncode = os.waitstatus_to_exitcode(int(self._told()))
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What is left of its output and of its complaints, once it has ended."""
        self._readers = self._readers or [_Reader(self.stdout), _Reader(self.stderr)]
        for reader in self._readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self._words, timeout or 0)
        self.wait(timeout)
        out, err = (reader.text for reader in self._readers)
        return out, err

    def send_signal(self, sign: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, sign)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _told(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            said = self._fate.read(1)
            assert said, "whoever looks after the command is gone"
            line += said
        return line


class _Reader(threading.Thread):
    def __init__(self, stream: IO[str]) -> None:
        super().__init__(daemon=True)
        self.stream, self.text = stream, ""
        self.start()

    def run(self) -> None:
        self.text = self.stream.read()
        self.stream.close()


_ordering = threading.Lock()


@cache
def _mother() -> socket.socket:
    """The way to the process that forks; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _ORDER)
    path = os.pathsep.join(path for path in sys.path if path)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path},
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# The other side


def _serve(orders: socket.socket) -> list[str]:
    """The words of a command, in a new process for each; ends with whoever gives the orders."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        order, descriptors, _, _ = socket.recv_fds(orders, _ORDER, 3)
        _take_leave()
        if not order:
            os._exit(0)
        if os.fork() == 0:
            orders.close()
            return _looked_after(json.loads(order), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _take_leave() -> None:
    """Those that have ended are no zombies any more, and their time counts as ours."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _looked_after(order: dict[str, object], out: int, err: int, fate: int) -> list[str]:
    """The words, in the process that is the command; the one between waits for it and tells how it ended."""
    pid = os.fork()
    if pid:
        for descriptor in (out, err):
            os.close(descriptor)
        os.write(fate, b"%d\n" % pid)
        status = os.waitpid(pid, 0)[1]
        with open(fate, "wb") as told:
            told.write(b"%d\n" % status)
        os._exit(0)
    os.close(fate)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for at, descriptor in ((1, out), (2, err)):
        os.dup2(descriptor, at)
        os.close(descriptor)
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", closefd=False), encoding="utf-8", line_buffering=True)
    os.environ.clear()
    os.environ.update(order["environment"])  # type: ignore[call-overload]
    os.chdir(str(order["folder"]))
    return list(order["words"])  # type: ignore[call-overload]


def _code_of(main: Callable[[], None]) -> int:
    try:
        main()
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    return 0


def _leave(code: int) -> None:
    """End without taking everything apart that was imported, which takes longer than most commands."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    from shopfloor import cli
    from shopfloor.runner import book, prompt, running
    from shopfloor.transports import server

    assert all((book, prompt, running, server))
    gc.freeze()
    sys.argv = ["shopfloor", *_serve(socket.socket(fileno=int(sys.argv[1])))]
    _leave(_code_of(cli.main))
