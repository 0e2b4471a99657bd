"""MCP over HTTP, behind the gate.

Stateless, so that a restart breaks no client; responses are plain JSON, or a stream of events when the caller
asked for progress. Both protocol eras are served at the same address.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from shopfloor.engine import Engine
from shopfloor.errors import ShopfloorError, Unauthenticated
from shopfloor.transports import direct_call
from shopfloor.transports.auth import authenticate, challenge_headers
from shopfloor.transports.bodies import (
    DUPLICATE_KEY,
    find_problem,
    has_duplicate_keys,
    parse_with_surrogates,
    read_body,
)
from shopfloor.transports.execute import retry_after_header
from shopfloor.transports.gate import MAX_BODY_BYTES
from shopfloor.transports.headers import RequestHeaders, read_headers
from shopfloor.transports.mcp_server import CREDENTIAL_KEY, HEADERS_KEY

_PRIVATE = (b"cache-control", b"private")
_REVISION_KEY = "io.modelcontextprotocol/protocolVersion"


class Endpoint:
    """An MCP server as an ASGI application, behind the gate."""

    def __init__(self, engine: Engine, server: Server[Any]) -> None:
        self._engine = engine
        self._server = server
        self._plain = _new_session_manager(server, json_response=True)
        self._streaming = _new_session_manager(server, json_response=False)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the SDK's session managers while requests are served."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._plain.run())
            await stack.enter_async_context(self._streaming.run())
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            raise HTTPException(405, headers={"Allow": "POST"})
        headers = read_headers(scope)
        try:
            scope[CREDENTIAL_KEY] = await authenticate(self._engine, scope)
            body = await read_body(receive)
        except ClientDisconnect:
            return
        except ShopfloorError as error:
            await self._reject(error, scope, receive, send)
            return
        if (problem := find_problem(body)) is not None:
            await _protocol_error(400, -32600, problem)(scope, receive, send)
            return
        try:
            message, is_plain = _parse_message(body)
        except ValueError as error:
            await _protocol_error(400, -32700, f"Parse error: {error}")(scope, receive, send)
            return
        if has_duplicate_keys(body, message):
            await _protocol_error(400, -32600, DUPLICATE_KEY)(scope, receive, send)
            return
        if _names_other_revision(headers, message):
            mismatch = "mcp-protocol-version header does not match the protocol version in params._meta"
            await _protocol_error(400, -32020, mismatch)(scope, receive, send)
            return
        sending = _add_result_headers(scope, send)
        call = direct_call.parse_simple_call(self._server, headers, message) if is_plain else None
        if call is not None and await direct_call.respond(self._server, call, scope, receive, sending):
            return
        _strip_header_spaces(scope)
        streams = b'"progressToken"' in body and "text/event-stream" in headers.find("accept")
        manager = self._streaming if streams else self._plain
        await manager.handle_request(scope, _replay_body(body, receive), sending)

    async def _reject(self, error: ShopfloorError, scope: Scope, receive: Receive, send: Send) -> None:
        status, extra = 503, retry_after_header(error)
        if isinstance(error, Unauthenticated):
            status, extra = 401, challenge_headers(self._engine, scope)
        response = _protocol_error(status, -32001, error.message)
        response.headers.update(extra)
        await response(scope, receive, send)


def _new_session_manager(server: Server[Any], *, json_response: bool) -> StreamableHTTPSessionManager:
    return StreamableHTTPSessionManager(
        server, json_response=json_response, stateless=True, max_request_body_size=MAX_BODY_BYTES
    )


def _parse_message(body: bytes) -> tuple[Any, bool]:
    """Return the message, and whether its texts can be stored."""
    # The SDK's parsers accept more: NaN, and in the stateless revision UTF-16 and unpaired surrogates. A body that
    # reaches them must have passed the checks of the endpoint. One with surrogates does, and the tool rejects it.
    try:
        return from_json(body, allow_inf_nan=False), True
    except ValueError as error:
        try:
            return parse_with_surrogates(body), False
        except (ValueError, RecursionError):
            raise error from None


def _names_other_revision(headers: RequestHeaders, message: Any) -> bool:
    """Return whether header and body name different revisions."""
    # The SDK looks for this only if the header names a stateless revision. Otherwise it takes the message for one of an
    # older revision, whose other headers it does not compare, although a proxy may have decided by them.
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(meta, dict) or _REVISION_KEY not in meta:
        return False
    return any(sent != meta[_REVISION_KEY] for sent in headers.list("mcp-protocol-version"))


def _protocol_error(status: int, code: int, message: str) -> JSONResponse:
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}, status)


def _strip_header_spaces(scope: Scope) -> None:
    """Strip white space around header values: httptools keeps it, and the SDK treats it as part of the value."""
    scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that replays the buffered body."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _add_result_headers(scope: Scope, send: Send) -> Send:
    """Add the headers of the call's result, if it is already known."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            # The response depends on the caller's credential, so a shared cache must not serve it to others.
            extra = [_PRIVATE, *scope.get(HEADERS_KEY, ())]
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        await send(message)

    return sending
