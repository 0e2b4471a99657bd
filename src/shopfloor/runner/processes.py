"""Processes that the runner starts. Each has a keeper, so that nothing of it outlives the runner."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

KEEPER = Path(__file__).with_name("keeper.py")
TAIL = 16 * 1024
"""Bytes that are kept of what a process says."""

_CHUNK = 64 * 1024
_DRAINED = 10.0
"""Seconds that the output of an ended process has to come to its end: somebody else may hold it."""


@dataclass
class Child:
    """A process with its keeper."""

    process: asyncio.subprocess.Process
    _leash: int | None
    _keep: int = TAIL
    _tail: bytearray = field(default_factory=bytearray)
    _draining: asyncio.Task[None] | None = None

    @property
    def said(self) -> str:
        """The end of what it wrote."""
        return bytes(self._tail).decode(errors="replace").strip()

    @property
    def raw(self) -> bytes:
        """The same, byte for byte."""
        return bytes(self._tail)

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    def drain(self, stream: asyncio.StreamReader) -> None:
        """Keep reading a stream, so that nobody has to wait for us, and remember its end."""
        self._draining = asyncio.create_task(self._drain(stream))

    async def wait(self) -> int:
        """The exit code, when it has ended and nothing of it is left."""
        code = await self.process.wait()
        if self._draining is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._draining), _DRAINED)
        self.let_go()
        return code

    async def end(self) -> int:
        """The same, after asking the keeper to end it."""
        self.let_go()
        return await self.wait()

    def let_go(self) -> None:
        """Close the leash: whatever still runs is ended."""
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None

    async def _drain(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(_CHUNK):
            self._tail += chunk
            del self._tail[: -self._keep]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a command: its exit code (none when its time was up) and the end of what it said."""

    command: tuple[str, ...]
    code: int | None
    raw: bytes

    @property
    def said(self) -> str:
        return self.raw.decode(errors="replace").strip()

    @property
    def passed(self) -> bool:
        return self.code == 0

    @property
    def failure(self) -> str:
        """What went wrong, in a few words that stay the same when it happens again."""
        how = "took too long" if self.code is None else f"ended with exit code {self.code}"
        return f"'{' '.join(self.command)}' {how}"


async def start(
    command: Sequence[str],
    folder: Path,
    *,
    grace: float,
    stdin: int = asyncio.subprocess.DEVNULL,
    stdout: int = asyncio.subprocess.PIPE,
    stderr: int = asyncio.subprocess.PIPE,
    environment: Mapping[str, str] | None = None,
    keep: int = TAIL,
) -> Child:
    """The command, started in a session of its own."""
    reading, leash = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-IS",
            str(KEEPER),
            str(reading),
            str(grace),
            *command,
            cwd=folder,
            env=_environment() | dict(environment or {}),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(reading,),
            start_new_session=True,
        )
    except BaseException:
        os.close(leash)
        raise
    finally:
        os.close(reading)
    return Child(process, leash, keep)


async def run(
    command: Sequence[str],
    folder: Path,
    *,
    seconds: float,
    environment: Mapping[str, str] | None = None,
    input: bytes = b"",
    keep: int = TAIL,
) -> Outcome:
    """What came of a command that has so many seconds."""
    child = await start(
        command,
        folder,
        grace=2,
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        environment=environment,
        keep=keep,
    )
    assert child.process.stdout is not None and child.process.stdin is not None
    child.drain(child.process.stdout)
    try:
        feeding = asyncio.create_task(_feed(child.process.stdin, input))
        code: int | None = await asyncio.wait_for(child.process.wait(), seconds)
    except TimeoutError:
        code = None
    finally:
        feeding.cancel()
        await child.end()
    return Outcome(tuple(command), code, child.raw)


async def _feed(stream: asyncio.StreamWriter, input: bytes) -> None:
    with contextlib.suppress(ConnectionError, BrokenPipeError):
        stream.write(input)
        await stream.drain()
        stream.close()


def _environment() -> dict[str, str]:
    """What processes inherit: everything but the floor's own settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SHOPFLOOR_")}
