"""MCP over stdin and stdout: the first answer, then the MCP SDK."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Sequence

from shopfloor.engine import Engine
from shopfloor.toolkit import Credential, Json, Toolset
from shopfloor.transports import handshake


def serve(engine: Engine, toolsets: Sequence[Toolset], credential: Credential) -> None:
    """Serve until stdin ends."""
    first_line = _read_line()

    def write_text() -> str:
        return handshake.write_instructions(engine.identity.authenticate(credential), toolsets)

    response = handshake.answer_initialize(first_line, write_text)
    if response is not None:
        _write(response)
    elif (discovered := handshake.answer_discover(first_line, write_text)) is not None:
        _write(discovered)
        first_line = b""
    # Imported after the answer: this is the slow import that `handshake` avoids.
    from shopfloor.transports import mcp_stdio  # noqa: PLC0415

    asyncio.run(mcp_stdio.serve(engine, toolsets, credential, first_line, is_answered=response is not None))


def _write(response: Json) -> None:
    sys.stdout.write(f"{json.dumps(response, separators=(',', ':'))}\n")
    sys.stdout.flush()


def _read_line() -> bytes:
    """Read a line from stdin, and nothing after it.

    It reads without a buffer, byte by byte: the SDK reads from a copy of the file descriptor, and would not see bytes
    in our buffer. A request of 2 kB costs 1 ms.
    """
    with io.FileIO(sys.stdin.fileno(), closefd=False) as stdin:
        return stdin.readline()
