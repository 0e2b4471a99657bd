"""Callers that disconnect while their call waits."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from shopfloor.engine import Engine
from shopfloor.toolkit import CallResult, Request


async def call_unless_disconnected(engine: Engine, request: Request, receive: Receive) -> CallResult:
    """Run the call, and cancel one that waits when its caller disconnects."""
    tool = request.tool
    # Other calls run to their end: their writes are stored, and a retry with the same key gets their response.
    if tool is None or not tool.waits:
        return await engine.acall(request)
    calling, disconnected = (
        asyncio.ensure_future(engine.acall(request)),
        asyncio.ensure_future(_wait_for_disconnect(receive)),
    )
    try:
        # Otherwise mail that arrives after the caller disconnected would count as delivered, for up to the 55 s of a
        # wait.
        await asyncio.wait((calling, disconnected), return_when=asyncio.FIRST_COMPLETED)
        if not calling.done():
            raise ClientDisconnect
        return calling.result()
    finally:
        calling.cancel()
        disconnected.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
