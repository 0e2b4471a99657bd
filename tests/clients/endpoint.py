"""Puts the fixture server on HTTP: `python -m tests.clients.endpoint MOUNT` prints its address and serves.

MOUNT is a way to turn an MCP server into an ASGI application: `ours`, or `sessions` for comparison.
"""

import contextlib
import json
import socket
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPDeprecationWarning
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.clients import fixtures

LOOPBACK = TransportSecuritySettings(
    allowed_hosts=["127.0.0.1:*", "localhost:*"], allowed_origins=["http://127.0.0.1:*", "http://localhost:*"]
)


def sessions(server: Server[Any]) -> ASGIApp:
    """The SDK's own way: a session per client, every answer a stream."""
    manager = StreamableHTTPSessionManager(server, security_settings=LOOPBACK)
    return _application(manager.handle_request, manager)


def stateless(server: Server[Any]) -> ASGIApp:
    """No sessions; answers are JSON, and streams where the request asks for progress and takes one."""
    plain = StreamableHTTPSessionManager(server, security_settings=LOOPBACK, stateless=True, json_response=True)
    streaming = StreamableHTTPSessionManager(server, security_settings=LOOPBACK, stateless=True)

    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            # Without sessions there is no stream to open and nothing to end.
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        streams = "text/event-stream" in request.headers.get("accept", "") and _asks_for_progress(body)
        manager = streaming if streams else plain
        await manager.handle_request(scope, _replay(body, receive), send)

    return _application(endpoint, plain, streaming)


MOUNTS: dict[str, Callable[[Server[Any]], ASGIApp]] = {"ours": stateless, "sessions": sessions}


def main(mount: str) -> None:
    # Half of what the older revision offers is deprecated in the newer one; both are tested.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        config = uvicorn.Config(_strip_headers(MOUNTS[mount](fixtures.server())), log_level="warning")
        uvicorn.Server(config).run(sockets=[listener])


def _application(endpoint: ASGIApp, *managers: StreamableHTTPSessionManager) -> Starlette:
    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for manager in managers:
                await stack.enter_async_context(manager.run())
            yield

    return Starlette(routes=[Mount("/", endpoint)], lifespan=lifespan)


def _asks_for_progress(body: bytes) -> bool:
    try:
        return "progressToken" in json.loads(body)["params"]["_meta"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _replay(body: bytes, receive: Receive) -> Receive:
    """What an application receives when `body` has already been read from `receive`."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed


def _strip_headers(app: ASGIApp) -> ASGIApp:
    """Spaces around a header's value are no part of it, and the HTTP parser leaves them."""

    async def stripped(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        await app(scope, receive, send)

    return stripped


if __name__ == "__main__":
    main(sys.argv[1])
