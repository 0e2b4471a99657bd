"""The load client: as many connections as asked for, each sending its next request as soon as it has an answer.

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

from bench.children import PATIENCE, answer, cpu_seconds

WARM_UP = 0.15
_LENGTH = b"content-length: "
_REFUSALS = (b'"isError":true', b'"isError": true', b'"success":false', b'"success": false')


class _Client(asyncio.Protocol):
    def __init__(self, request: bytes) -> None:
        self._request = request
        self._answer = b""
        self._left = 0
        self._transport: Any = None
        self.calls = 0
        self.refused: bytes | None = None
        self.running = True
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def begin(self) -> None:
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._answer = answer = self._answer + data if self._answer else data
        head = answer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = answer.index(_LENGTH) + len(_LENGTH)
        if len(answer) < head + 4 + int(answer[at : answer.index(b"\r", at)]):
            return
        self._answer = b""
        self.calls += 1
        if not answer.startswith(b"HTTP/1.1 200") or any(refusal in answer for refusal in _REFUSALS):
            self.refused = answer
            self._transport.close()
        elif self.running:
            self._transport.write(self._request)
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if self.running:
            self.refused = self.refused or f"connection lost: {error}".encode()
        self.ended.set_result(None)


async def _load(port: int, requests: list[str], clients: int, seconds: float, pid: int) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    bodies = [base64.b64decode(request) for request in requests]
    crowd: list[_Client] = []
    for number in range(clients):
        request = bodies[number % len(bodies)]
        _, client = await loop.create_connection(partial(_Client, request), "127.0.0.1", port)
        crowd.append(client)
    for client in crowd:
        client.begin()
    await asyncio.sleep(WARM_UP)
    calls, cpu, own, began = _count(crowd), cpu_seconds(pid), time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    calls, cpu, own = _count(crowd) - calls, cpu_seconds(pid) - cpu, time.process_time() - own
    lasted = time.perf_counter() - began
    for client in crowd:
        client.running = False  # the answer under way is its last, so that nothing is left for the next measurement
    await asyncio.wait([client.ended for client in crowd], timeout=PATIENCE)
    refused = next((client.refused for client in crowd if client.refused), None)
    if refused is not None:
        return {"refused": refused[:2000].decode(errors="replace")}
    return {"calls": calls, "seconds": lasted, "cpu": cpu, "own_cpu": own}


def _count(crowd: list[_Client]) -> int:
    return sum(client.calls for client in crowd)


def _measure(**request: Any) -> dict[str, Any]:
    return uvloop.run(_load(**request))


if __name__ == "__main__":
    print("{}", flush=True)
    answer(_measure)
