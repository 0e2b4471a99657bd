"""Three transports with one interface: /mcp/execute, MCP by the official client, and Python."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from shopfloor.serving import Shopfloor

PATIENCE = 300.0


class Transport(Protocol):
    """A transport for one caller. It returns the whole envelope."""

    def call(self, tool: str, input: dict[str, Any]) -> dict[str, Any]: ...


@contextmanager
def serve_in_thread(shop: Shopfloor) -> Iterator[str]:
    """Serve from a thread of this process, and yield the URL."""
    loop = asyncio.new_event_loop()
    address: list[str] = []
    ready, over = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with shop.serving(port=0) as url:
            address.append(url)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(PATIENCE)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(PATIENCE)
        loop.close()


class Execute:
    """POST /mcp/execute."""

    def __init__(self, url: str, token: str) -> None:
        self._client = httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE)

    def post(self, tool: str, input: dict[str, Any], **body: Any) -> httpx2.Response:
        return self._client.post("/mcp/execute", json={"toolName": tool, "input": input, **body})

    def call(self, tool: str, input: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self.post(tool, input).json()
        return answer


class Mcp:
    """MCP by the official client. Each call has its own session."""

    def __init__(self, url: str, token: str) -> None:
        self._url = f"{url}/mcp"
        self._token = token

    def call(self, tool: str, input: dict[str, Any]) -> dict[str, Any]:
        result = asyncio.run(self._call(tool, input))
        answer: dict[str, Any] = result.structured_content
        return answer

    def call_raw(self, tool: str, input: dict[str, Any]) -> Any:
        return asyncio.run(self._call(tool, input))

    def list_tools(self) -> list[Any]:
        async def read_tools() -> list[Any]:
            async with self._session() as client:
                return list((await client.list_tools()).tools)

        return asyncio.run(read_tools())

    async def _call(self, tool: str, input: dict[str, Any]) -> Any:
        async with self._session() as client:
            return await client.call_tool(tool, input)

    def _session(self) -> Client:
        return connect_client(self._url, self._token)


class Python:
    """A call in process."""

    def __init__(self, shop: Shopfloor, name: str) -> None:
        self._shop = shop
        self._name = name

    def call(self, tool: str, input: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self._shop.call("factory", tool, input, self._name)
        return answer


def connect_client(url: str, token: str) -> Client:
    """Connect the official client as one agent."""
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE)
    return Client(streamable_http_client(url, http_client=http))
