"""Requests that arrive slowly or never end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from chaos.faults import wait_seconds
from shopfloor import Settings, Shopfloor
from shopfloor.transports import server

PATIENCE = 300.0
REQUEST_HEAD = (
    b"POST /mcp/execute HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
)
WHOLE_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_TIMEOUT_SECONDS", 0.3)


def run_connection(
    folder: Path, talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]]
) -> bytes:
    """Open a connection to a server, run `talk` on it and return its result."""

    async def connect(shop: Shopfloor) -> bytes:
        async with shop.serving(port=0) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            try:
                return await asyncio.wait_for(talk(reader, writer), PATIENCE)
            finally:
                writer.close()

    with Shopfloor(Settings(project=folder)) as shop:
        return asyncio.run(connect(shop))


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"POST /mcp/exec", b"HTTP/1.1 408 "),
        (REQUEST_HEAD, b"HTTP/1.1 408 "),
        (REQUEST_HEAD + b'{"toolName', b"HTTP/1.1 408 "),
        (WHOLE_REQUEST + REQUEST_HEAD, b"HTTP/1.1 200 "),
    ],
    ids=["nothing", "half a head", "no body", "half a body", "the second of two"],
)
def test_unfinished_request_times_out(tmp_path: Path, short_timeout: None, sent: bytes, answer: bytes):
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(sent)
        return await reader.read()

    received = run_connection(tmp_path, talk)
    assert received.startswith(answer)
    assert answer or not received
    assert (b"HTTP/1.1 408 " in received) == (sent != b"")


def test_time_in_which_the_server_was_suspended_is_not_the_clients(
    tmp_path: Path, short_timeout: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server, "LATE_TIMER_SECONDS", 0.1)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(WHOLE_REQUEST[:20])
        # The server is in the same event loop, which now stands still for longer than a request may take.
        wait_seconds(1.0)
        # Several turns of the loop, in which the timer fires.
        for _ in range(10):
            await asyncio.sleep(0)
        writer.write(WHOLE_REQUEST[20:])
        return await reader.readline()

    assert run_connection(tmp_path, talk) == b"HTTP/1.1 200 OK\r\n"


def test_slow_request_within_the_timeout_is_served(tmp_path: Path):
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        for byte in WHOLE_REQUEST:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.001)
        return await reader.readline()

    assert run_connection(tmp_path, talk).startswith(b"HTTP/1.1 200 ")


def test_client_that_never_reads_its_responses_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server, "WRITE_TIMEOUT_SECONDS", 0.3)
    requests = 200

    async def connect(shop: Shopfloor) -> int:
        async with shop.serving(port=0) as url:
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", int(url.rpartition(":")[2])))
            request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            await loop.sock_sendall(client, request * requests)
            await asyncio.sleep(3)
            received = b""
            with contextlib.suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    while chunk := await loop.sock_recv(client, 1 << 20):
                        received += chunk
            client.close()
            return received.count(b"HTTP/1.1 200")

    with Shopfloor(Settings(project=tmp_path)) as shop:
        assert asyncio.run(connect(shop)) < requests
