"""Check a connection as its client would make it: an MCP client with the same transport, address and headers."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TextIO

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from shopfloor.connect.endpoints import Endpoint
from shopfloor.errors import Unavailable

TIMEOUT_SECONDS = 30.0
MAX_ERROR_CHARACTERS = 500


def list_tools(endpoint: Endpoint, folder: Path) -> list[str]:
    """Return the names of the tools that the client will see; raise Unavailable if it cannot connect."""
    with tempfile.TemporaryFile("w+") as errors:
        try:
            return asyncio.run(_list_tools(endpoint, folder, errors))
        except TimeoutError:
            raise Unavailable(f"{endpoint.address} did not answer within {TIMEOUT_SECONDS:.0f} s") from None
        except Exception as error:  # noqa: BLE001 - the SDK raises errors of several libraries, in exception groups
            errors.seek(0)
            # A server that exits at once says why on standard error, which the SDK does not report.
            said = " ".join(errors.read(MAX_ERROR_CHARACTERS).split())
            cause = _find_cause(error)
            reason = said or str(cause) or type(cause).__name__
            is_listening = not isinstance(cause, httpx2.ConnectError)
            raise Unavailable(f"{endpoint.address}: {reason}", is_listening=is_listening) from None


async def _list_tools(endpoint: Endpoint, folder: Path, errors: TextIO) -> list[str]:
    if endpoint.command:
        command, *arguments = endpoint.command
        parameters = StdioServerParameters(command=command, args=arguments, cwd=folder)
        async with asyncio.timeout(TIMEOUT_SECONDS), Client(stdio_client(parameters, errors)) as client:
            return await _collect(client)
    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        httpx2.AsyncClient(headers=endpoint.headers, timeout=TIMEOUT_SECONDS) as http,
        Client(streamable_http_client(endpoint.url or "", http_client=http)) as client,
    ):
        return await _collect(client)


async def _collect(client: Client) -> list[str]:
    names: list[str] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        names += [tool.name for tool in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            return names


def _find_cause(error: BaseException) -> BaseException:
    """Return the first real error in nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
