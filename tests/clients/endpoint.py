"""Serve the fixture server over HTTP: `python -m tests.clients.endpoint MOUNT FOLDER` prints its URL and serves.

MOUNT turns an MCP server into an ASGI application: `ours` with Shopfloor's gate and endpoint, or `sessions` with the
session manager of the SDK for comparison.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPDeprecationWarning
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from shopfloor.app import build
from shopfloor.settings import Settings
from shopfloor.transports.gate import Gate
from shopfloor.transports.mcp import Endpoint
from shopfloor.transports.server import open_socket, socket_url, uvicorn_config
from tests.clients import fixtures

LOOPBACK = TransportSecuritySettings(
    allowed_hosts=["127.0.0.1:*", "localhost:*"], allowed_origins=["http://127.0.0.1:*", "http://localhost:*"]
)


def mount_with_shopfloor(server: Server[Any], folder: str) -> ASGIApp:
    """Mount the server as Shopfloor does: its endpoint behind its gate, without credentials."""
    settings = Settings(project=folder)
    endpoint = Endpoint(build(settings), server)
    return Gate(_build_application(endpoint, endpoint.running), settings)


def mount_with_sessions(server: Server[Any], folder: str) -> ASGIApp:
    """Mount the server as the SDK does: a session per client, every response a stream."""
    manager = StreamableHTTPSessionManager(server, security_settings=LOOPBACK)
    return _build_application(_StripHeaders(manager.handle_request), manager.run)


MOUNTS: dict[str, Callable[[Server[Any], str], ASGIApp]] = {
    "ours": mount_with_shopfloor,
    "sessions": mount_with_sessions,
}


def main(mount: str, folder: str) -> None:
    # Half of what the older revision offers is deprecated in the newer one; both are tested.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    config = uvicorn_config(MOUNTS[mount](fixtures.build_server(), folder))
    with open_socket("127.0.0.1", 0) as listener:
        print(f"{socket_url(listener)}/mcp", flush=True)
        uvicorn.Server(config).run(sockets=[listener])


def _build_application(endpoint: ASGIApp, running: Callable[[], AbstractAsyncContextManager[None]]) -> Starlette:
    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with running():
            yield

    return Starlette(routes=[Route("/mcp", endpoint)], lifespan=lifespan)


class _StripHeaders:
    """Strip the spaces around header values, which the HTTP parser leaves."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        await self._app({**scope, "headers": headers}, receive, send)


if __name__ == "__main__":
    main(*sys.argv[1:])
