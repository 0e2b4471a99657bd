"""Start a process below a reaper; reaper.py is the other end of the socket."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import json
import os
import signal
import socket
import subprocess  # nosec B404 # a process that starts no shell
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from shopfloor.runner import reaper

PIPE, STDOUT = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT


class _ReaperServer:
    """The process of reaper.py: one for all commands of this process, started with the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def send(self, body: bytes, fds: Sequence[int]) -> None:
        """Send a request with its file descriptors."""
        with self._lock:
            if self._requests is not None:
                try:
                    _send_request(self._requests, body, fds)
                    return
                except OSError:
                    # It was killed. The reapers that it forked live on.
                    self._requests.close()
            self._requests = self._start()
            _send_request(self._requests, body, fds)

    def close(self) -> None:
        """End the process when this one ends: its CPU time, and that of its commands, counts as ours."""
        if self._requests is not None and self._process is not None:
            self._requests.close()
            self._process.wait()
            self._requests = self._process = None

    def _start(self) -> socket.socket:
        if self._process is None:
            atexit.register(self.close)
        else:
            self._process.wait()
        ours, theirs = socket.socketpair()
        with theirs:
            # Isolated and without site-packages: no file of the project can replace a standard module.
            self._process = subprocess.Popen(  # nosec B603 # an argument vector, no shell
                [sys.executable, "-IS", str(Path(reaper.__file__)), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        return ours


def _send_request(requests: socket.socket, body: bytes, fds: Sequence[int]) -> None:
    socket.send_fds(requests, [reaper.LENGTH.pack(len(body))], list(fds))
    requests.sendall(body)


_server = _ReaperServer()


def end_server() -> None:
    """End the process that forks reapers, so that a run leaves none behind. The next command starts another."""
    _server.close()


class ReapedProcess:
    """A process whose reaper reports its exit code. Its streams are those of `asyncio.subprocess.Process`."""

    def __init__(self, status: int) -> None:
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self.returncode: int | None = None
        self._ended = asyncio.Event()
        self._status = status
        asyncio.get_running_loop().add_reader(status, self._read_status)

    async def wait(self) -> int:
        """Wait until the process and all its descendants have ended, and return its exit code."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def _read_status(self) -> None:
        text = os.read(self._status, reaper.STATUS.size)
        # Without a status, the reaper itself was killed.
        self.returncode = reaper.STATUS.unpack(text)[0] if text else -signal.SIGKILL
        asyncio.get_running_loop().remove_reader(self._status)
        os.close(self._status)
        self._ended.set()


async def start_reaped(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    grace: float,
    stdin: int,
    stdout: int,
    stderr: int,
) -> tuple[ReapedProcess, int]:
    """Start a command below a reaper. Return it with its lifeline: closing that ends everything."""
    if not os.path.isdir(folder):  # noqa: ASYNC240, PTH112 - it takes a microsecond
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
    body = {"words": list(command), "folder": str(folder), "environment": dict(environment), "grace": grace}
    with contextlib.ExitStack() as given, contextlib.ExitStack() as kept:
        # The command's ends are always closed here; ours only if it cannot be started.
        def open_pipe(wanted: int, *, ours_writes: bool) -> tuple[int, int | None]:
            if wanted != PIPE:
                null = os.open(os.devnull, os.O_RDWR)
                given.callback(os.close, null)
                return null, None
            reading, writing = os.pipe()
            theirs, ours = (reading, writing) if ours_writes else (writing, reading)
            given.callback(os.close, theirs)
            kept.callback(os.close, ours)
            return theirs, ours

        their_stdin, our_stdin = open_pipe(stdin, ours_writes=True)
        their_stdout, our_stdout = open_pipe(stdout, ours_writes=False)
        their_stderr, our_stderr = (their_stdout, None) if stderr == STDOUT else open_pipe(stderr, ours_writes=False)
        their_lifeline, lifeline = open_pipe(PIPE, ours_writes=True)
        their_status, status = open_pipe(PIPE, ours_writes=False)
        assert lifeline is not None and status is not None
        fds = [their_stdin, their_stdout, their_stderr, their_lifeline, their_status]
        # Not awaited: the descriptors must not be closed before they are sent.
        _server.send(json.dumps(body).encode(), fds)
        kept.pop_all()
    process = ReapedProcess(status)
    try:
        process.stdin = None if our_stdin is None else await _open_writer(our_stdin)
        process.stdout = None if our_stdout is None else await _open_reader(our_stdout)
        process.stderr = None if our_stderr is None else await _open_reader(our_stderr)
    except BaseException:
        os.close(lifeline)
        raise
    return process, lifeline


async def _open_reader(fd: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    pipe = os.fdopen(fd, "rb", buffering=0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def _open_writer(fd: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(fd, "wb", buffering=0)
    # A reader's protocol, because it also has the flow control that a writer needs.
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)
