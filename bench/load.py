"""The load client: as many connections as asked for, each sending its next request as soon as it has an response.

It does as little as it can, so that the server is what is measured: requests are ready-made bytes, and of an
answer it reads the status, the length and whether it is a refusal.
"""

from __future__ import annotations

import asyncio
import base64
import time
from functools import partial
from typing import Any

import uvloop

from bench.subprocesses import TIMEOUT_SECONDS, cpu_seconds, serve_requests

WARM_UP_SECONDS = 0.15
_LENGTH = b"content-length: "
_ERRORS = (b'"isError":true', b'"isError": true', b'"success":false', b'"success": false')


class _Client(asyncio.Protocol):
    def __init__(self, request: bytes) -> None:
        self._request = request
        self._received = b""
        self._transport: Any = None
        self.calls = 0
        self.rejected: bytes | None = None
        self.running = True
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def start(self) -> None:
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received = response = self._received + data if self._received else data
        head = response.find(b"\r\n\r\n")
        if head < 0:
            return
        at = response.index(_LENGTH) + len(_LENGTH)
        if len(response) < head + 4 + int(response[at : response.index(b"\r", at)]):
            return
        self._received = b""
        self.calls += 1
        if not response.startswith(b"HTTP/1.1 200") or any(error in response for error in _ERRORS):
            self.rejected = response
            self._transport.close()
        elif self.running:
            self._transport.write(self._request)
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if self.running:
            self.rejected = self.rejected or f"connection lost: {error}".encode()
        self.ended.set_result(None)


async def _load(port: int, requests: list[str], clients: int, seconds: float, pid: int) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    bodies = [base64.b64decode(request) for request in requests]
    connections: list[_Client] = []
    for number in range(clients):
        request = bodies[number % len(bodies)]
        _, client = await loop.create_connection(partial(_Client, request), "127.0.0.1", port)
        connections.append(client)
    for client in connections:
        client.start()
    await asyncio.sleep(WARM_UP_SECONDS)
    calls, cpu, own, started = _count(connections), cpu_seconds(pid), time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    calls, cpu, own = _count(connections) - calls, cpu_seconds(pid) - cpu, time.process_time() - own
    elapsed = time.perf_counter() - started
    for client in connections:
        client.running = False  # the pending response is its last, so that nothing is left for the next measurement
    await asyncio.wait([client.ended for client in connections], timeout=TIMEOUT_SECONDS)
    rejected = next((client.rejected for client in connections if client.rejected), None)
    if rejected is not None:
        return {"rejected": rejected[:2000].decode(errors="replace")}
    return {"calls": calls, "seconds": elapsed, "cpu": cpu, "own_cpu": own}


def _count(connections: list[_Client]) -> int:
    return sum(client.calls for client in connections)


def _measure(**request: Any) -> dict[str, Any]:
    return uvloop.run(_load(**request))


if __name__ == "__main__":
    print("{}", flush=True)
    serve_requests(_measure)
