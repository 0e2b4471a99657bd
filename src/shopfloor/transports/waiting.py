"""Callers that go away while their call waits."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from shopfloor.app import Floor
from shopfloor.toolkit import Answer, Call


async def answered(floor: Floor, call: Call, receive: Receive) -> Answer:
    """The answer, unless the caller of something that waits goes away: what came would count as delivered to nobody."""
    tool = call.toolset.tools.get(call.name)
    if tool is None or not tool.waits:
        return await floor.acall(call)
    calling, going = asyncio.ensure_future(floor.acall(call)), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((calling, going), return_when=asyncio.FIRST_COMPLETED)
        if not calling.done():
            raise ClientDisconnect
        return calling.result()
    finally:
        calling.cancel()
        going.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
