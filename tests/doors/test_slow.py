"""Requests that take their time to arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from shopfloor import Settings, Shopfloor
from shopfloor.transports import server

PATIENCE = 60.0
HEAD = b"POST /mcp/execute HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.3)


def met(folder: Path, talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]]) -> bytes:
    """What a talk with a floor gave."""

    async def meet(shop: Shopfloor) -> bytes:
        async with shop.serving(port=0) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            try:
                return await asyncio.wait_for(talk(reader, writer), PATIENCE)
            finally:
                writer.close()

    with Shopfloor(Settings(project=folder)) as shop:
        return asyncio.run(meet(shop))


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"POST /mcp/exec", b"HTTP/1.1 408 "),
        (HEAD, b"HTTP/1.1 408 "),
        (HEAD + b'{"toolName', b"HTTP/1.1 408 "),
        (WHOLE + HEAD, b"HTTP/1.1 200 "),
    ],
    ids=["nothing", "half a head", "no body", "half a body", "the second of two"],
)
def test_who_never_ends_a_request_is_sent_away(tmp_path: Path, impatient: None, sent: bytes, answer: bytes):
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(sent)
        return await reader.read()

    got = met(tmp_path, talk)
    assert got.startswith(answer)
    assert answer or not got
    if sent.startswith(WHOLE):
        assert b"HTTP/1.1 408 " in got


def test_who_sends_slowly_but_in_time_is_served(tmp_path: Path):
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        for byte in WHOLE:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.001)
        return await reader.readline()

    assert met(tmp_path, talk).startswith(b"HTTP/1.1 200 ")
