"""MCP over stdin and stdout with the MCP SDK."""

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

from shopfloor.engine import Engine
from shopfloor.toolkit import Credential, Toolset
from shopfloor.transports import mcp_server

_INVALID_MESSAGE = "Invalid message: send one JSON-RPC message per line, in UTF-8"


async def serve(
    engine: Engine, toolsets: Sequence[Toolset], credential: Credential, first_line: bytes, *, is_answered: bool
) -> None:
    """Serve until stdin ends. The first line was already read, and possibly answered."""
    server = mcp_server.build_server(engine, toolsets, "stdio", credential)
    async with stdio_server() as (received, sent):
        messages: Any = _ValidMessages(received, sent, first_line)
        responses: Any = _ResponsesAfterFirst(sent) if is_answered else sent
        await server.run(messages, responses, server.create_initialization_options())


class _ResponsesAfterFirst:
    """The SDK's responses except the first, to `initialize`, which the client already has."""

    def __init__(self, sent: Any) -> None:
        self._sent = sent
        self._is_first = True

    async def send(self, item: SessionMessage) -> None:
        # The SDK handles `initialize` before it reads the next message, so its response is the first thing it sends.
        if self._is_first:
            self._is_first = False
            return
        await self._sent.send(item)

    async def aclose(self) -> None:
        await self._sent.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _ValidMessages:
    """The first line and all later messages that can be parsed; others are answered with a parse error."""

    def __init__(self, received: Any, sent: Any, first_line: bytes) -> None:
        self._received = received
        self._sent = sent
        self._first = _parse_message(first_line) if first_line else None

    @property
    def last_context(self) -> Context | None:
        context: Context | None = self._received.last_context
        return context

    async def aclose(self) -> None:
        await self._received.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        # The SDK silently drops a line that it cannot parse, such as one with an unpaired surrogate or JSON nested 200
        # levels deep, and its sender would wait forever.
        while isinstance(item := await self._receive(), Exception):
            # The line, or part of it, that could not be parsed. Blank lines are not messages.
            given = item.errors(include_url=False)[0]["input"] if isinstance(item, ValidationError) else None
            if isinstance(given, str) and not given.strip():
                continue
            data = types.ErrorData(code=types.PARSE_ERROR, message=_INVALID_MESSAGE)
            rejected = types.JSONRPCError(jsonrpc="2.0", id=_find_id(given), error=data)
            await self._sent.send(SessionMessage(rejected))
        message: SessionMessage = item
        return message

    async def _receive(self) -> Any:
        first, self._first = self._first, None
        return await self._received.__anext__() if first is None else first

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _parse_message(line: bytes) -> SessionMessage | Exception:
    """Parse a line as the SDK does."""
    try:
        text = line.decode("utf-8", errors="replace")
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValidationError as error:
        return error


def _find_id(given: Any) -> types.RequestId | None:
    """Return the id of the message if it has a readable one, so that its sender gets the error."""
    try:
        message = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return None
    id = message.get("id") if isinstance(message, dict) else None
    return id if isinstance(id, str | int) and not isinstance(id, bool) else None
