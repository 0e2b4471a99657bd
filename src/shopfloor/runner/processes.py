"""Start processes below a reaper, so that none outlives the runner, and in the sandbox of their folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from shopfloor.runner.reaped_process import ReapedProcess, start_reaped
from shopfloor.runner.sandbox import Sandbox

TAIL_BYTES = 16 * 1024
"""How much of a process's output is kept, counted from the end."""

_CHUNK_BYTES = 64 * 1024
_COMMAND_GRACE_SECONDS = 2.0
_DRAIN_SECONDS = 10.0
"""How long to wait for end of file after the exit: a process outside our tree may still hold the pipe open."""


@dataclass
class Child:
    """A process, usually below a reaper.

    `_lifeline_fd` is our end of the lifeline pipe, None once closed. Closing it makes the reaper end the process.
    """

    process: asyncio.subprocess.Process | ReapedProcess
    _lifeline_fd: int | None
    _tail_bytes: int = TAIL_BYTES
    _tail: bytearray = field(default_factory=bytearray)
    _draining: asyncio.Task[None] | None = None
    _relay: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    @property
    def output_tail(self) -> str:
        return self.raw_output_tail.decode(errors="replace").strip()

    @property
    def raw_output_tail(self) -> bytes:
        return bytes(self._tail)

    @property
    def is_alive(self) -> bool:
        return self.process.returncode is None

    def drain(self, stream: asyncio.StreamReader) -> None:
        """Read a stream in the background, so that the process never blocks on a full pipe, and keep its tail."""

        async def drain_stream() -> None:
            while chunk := await stream.read(_CHUNK_BYTES):
                self._tail += chunk
                del self._tail[: -self._tail_bytes]

        self._draining = asyncio.create_task(drain_stream())

    async def wait(self) -> int:
        """Wait until the process and all its descendants have ended, and return its exit code."""
        code = await self.process.wait()
        if self._draining is not None:
            # Shielded: the timeout ends this wait, not the reader, which must keep the pipe from filling up.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DRAIN_SECONDS):
                    await asyncio.shield(self._draining)
        self.release()
        await self._relay.aclose()
        return code

    async def end(self) -> int:
        """End the process, through its reaper if it has one, and return its exit code."""
        if isinstance(self.process, asyncio.subprocess.Process) and self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        self.release()
        return await self.wait()

    def release(self) -> None:
        """Close the lifeline: the reaper ends what is still running."""
        if self._lifeline_fd is not None:
            os.close(self._lifeline_fd)
            self._lifeline_fd = None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code of a command, None after a timeout, and the tail of its output."""

    command: tuple[str, ...]
    code: int | None
    raw_output: bytes
    seconds: float = 0.0

    @property
    def output(self) -> str:
        return self.raw_output.decode(errors="replace").strip()

    @property
    def passed(self) -> bool:
        return self.code == 0

    @property
    def failure(self) -> str:
        """The failure, in words that are the same each time: repeated failures are counted by them."""
        how = "took too long" if self.code is None else f"ended with exit code {self.code}"
        return f"'{' '.join(self.command)}' {how}"


_sandboxes: dict[Path, Sandbox] = {}
"""Sandboxes by their root. Kept here, so that no process can be started in a confined folder without its sandbox."""


@contextmanager
def confine(sandbox: Sandbox | None) -> Iterator[None]:
    """Start every process below the sandbox's root inside it, while the context lasts."""
    if sandbox is None:
        yield
        return
    _sandboxes[sandbox.root] = sandbox
    try:
        yield
    finally:
        del _sandboxes[sandbox.root]
        # The mount point of a project without a repository.
        with contextlib.suppress(OSError):
            (sandbox.root / ".git").rmdir()


def find_sandbox(folder: Path) -> Sandbox | None:
    """Return the sandbox of a folder, or None."""
    return next((box for root, box in _sandboxes.items() if folder.is_relative_to(root)), None)


async def start_process(
    command: Sequence[str],
    folder: Path,
    *,
    grace: float,
    stdin: int = asyncio.subprocess.DEVNULL,
    stdout: int = asyncio.subprocess.PIPE,
    stderr: int = asyncio.subprocess.PIPE,
    environment: Mapping[str, str] | None = None,
    tail_bytes: int = TAIL_BYTES,
    scratch: Path | None = None,
    port: int | None = None,
    reaped: bool = True,
) -> Child:
    """Start a command in a session of its own. It does not inherit the server's settings (SHOPFLOOR_…).

    In a sandbox, it may write to the folder `scratch`, and reach this loopback port even without a network. Without a
    reaper, it outlives a killed runner: use that only for commands that start no other process and end soon.
    """
    given = {name: value for name, value in os.environ.items() if not name.startswith("SHOPFLOOR_")}
    given |= environment or {}
    relay = contextlib.AsyncExitStack()
    lifeline: int | None = None
    process: asyncio.subprocess.Process | ReapedProcess
    try:
        if (sandbox := find_sandbox(folder)) is not None:
            tools = None
            if port is not None and not sandbox.has_network:
                tools = (await relay.enter_async_context(_relay_to(port)), port)
            command = sandbox.wrap(command, folder, scratch=scratch, relay=tools)
        if reaped:
            process, lifeline = await start_reaped(
                command, folder, given, grace=grace, stdin=stdin, stdout=stdout, stderr=stderr
            )
        else:
            process = await asyncio.create_subprocess_exec(
                *command, cwd=folder, env=given, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
            )
    except BaseException:
        await relay.aclose()
        raise
    return Child(process, lifeline, tail_bytes, _relay=relay)


@asynccontextmanager
async def _relay_to(port: int) -> AsyncIterator[Path]:
    """Serve a socket that leads to a loopback port; see relay.py for its other end."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK_BYTES):
                writer.write(chunk)
                await writer.drain()
        with contextlib.suppress(OSError, RuntimeError):
            writer.write_eof()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.closing(server_writer):
                await asyncio.gather(copy(reader, server_writer), copy(server_reader, writer))

    with tempfile.TemporaryDirectory(prefix="shopfloor-") as folder:
        socket = Path(folder) / "tools.sock"
        server = await asyncio.start_unix_server(connect, socket)
        try:
            yield socket
        finally:
            server.close()


async def run_command(
    command: Sequence[str],
    folder: Path,
    *,
    seconds: float,
    environment: Mapping[str, str] | None = None,
    input: bytes = b"",
    tail_bytes: int = TAIL_BYTES,
    scratch: Path | None = None,
    reaped: bool = True,
) -> CommandResult:
    """Run a command to its end, or end it after this many seconds."""
    child = await start_process(
        command,
        folder,
        grace=_COMMAND_GRACE_SECONDS,
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        environment=environment,
        tail_bytes=tail_bytes,
        scratch=scratch,
        reaped=reaped,
    )
    assert child.process.stdout is not None and child.process.stdin is not None
    child.drain(child.process.stdout)
    stdin = child.process.stdin

    async def write_input() -> None:
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            stdin.write(input)
            await stdin.drain()
            stdin.close()

    # A separate task: a command that never reads its input must not keep us from noticing its end.
    writing = asyncio.create_task(write_input())
    started = time.monotonic()
    try:
        async with asyncio.timeout(seconds):
            code: int | None = await child.process.wait()
    except TimeoutError:
        code = None
    finally:
        writing.cancel()
        await child.end()
    return CommandResult(tuple(command), code, child.raw_output_tail, time.monotonic() - started)
