"""MCP over the standard streams of this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextvars import Context
from types import TracebackType
from typing import Any, Self

import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic_core import ValidationError

from shopfloor.app import Floor
from shopfloor.toolkit import Credential, Toolset
from shopfloor.transports import mcp

_NO_MESSAGE = "This is no message: send one JSON-RPC message a line, in UTF-8"


async def serve(floor: Floor, toolsets: Sequence[Toolset], credential: Credential) -> None:
    """Answer on the standard output until the standard input ends."""
    server = mcp.server(floor, toolsets, "stdio", credential)
    async with stdio_server() as (received, sent):
        understood: Any = _Understood(received, sent)
        await server.run(understood, sent, server.create_initialization_options())


class _Understood:
    """What came in and can be understood. The SDK drops the rest without a word, and its sender would wait for ever."""

    def __init__(self, received: Any, sent: Any) -> None:
        self._received = received
        self._sent = sent

    @property
    def last_context(self) -> Context | None:
        context: Context | None = self._received.last_context
        return context

    async def aclose(self) -> None:
        await self._received.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        while isinstance(item := await self._received.__anext__(), Exception):
            if (given := _given(item)) != "":
                await self._sent.send(SessionMessage(_not_understood(given)))
        message: SessionMessage = item
        return message

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _given(error: Exception) -> Any:
    """What it was that cannot be understood: a line, or what of it is not as it should be."""
    given = error.errors(include_url=False)[0]["input"] if isinstance(error, ValidationError) else None
    return given.strip() if isinstance(given, str) else given


def _not_understood(given: Any) -> types.JSONRPCError:
    told = types.ErrorData(code=types.PARSE_ERROR, message=_NO_MESSAGE)
    return types.JSONRPCError(jsonrpc="2.0", id=_id_in(given), error=told)


def _id_in(given: Any) -> types.RequestId | None:
    """The id of the message, if one can be made out: its sender waits for it."""
    try:
        message = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return None
    id = message.get("id") if isinstance(message, dict) else None
    return id if isinstance(id, str | int) and not isinstance(id, bool) else None
