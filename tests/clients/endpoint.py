"""Puts the fixture server on HTTP: `python -m tests.clients.endpoint MOUNT FOLDER` prints its address and serves.

MOUNT is a way to turn an MCP server into an ASGI application: `ours`, which is Shopfloor's own gate and endpoint
around it, or `sessions` for comparison.
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
from shopfloor.transports.server import configured, listening, url_of
from tests.clients import fixtures

LOOPBACK = TransportSecuritySettings(
    allowed_hosts=["127.0.0.1:*", "localhost:*"], allowed_origins=["http://127.0.0.1:*", "http://localhost:*"]
)


def ours(server: Server[Any], folder: str) -> ASGIApp:
    """The way of Shopfloor: its endpoint behind its gate, on a floor that needs no credential."""
    settings = Settings(project=folder)
    endpoint = Endpoint(build(settings), server)
    return Gate(_application(endpoint, endpoint.running), settings)


def sessions(server: Server[Any], folder: str) -> ASGIApp:
    """The SDK's own way: a session per client, every answer a stream."""
    manager = StreamableHTTPSessionManager(server, security_settings=LOOPBACK)
    return _application(_Stripped(manager.handle_request), manager.run)


MOUNTS: dict[str, Callable[[Server[Any], str], ASGIApp]] = {"ours": ours, "sessions": sessions}


def main(mount: str, folder: str) -> None:
    # Half of what the older revision offers is deprecated in the newer one; both are tested.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    config = configured(MOUNTS[mount](fixtures.server(), folder))
    with listening("127.0.0.1", 0) as listener:
        print(f"{url_of(listener)}/mcp", flush=True)
        uvicorn.Server(config).run(sockets=[listener])


def _application(endpoint: ASGIApp, running: Callable[[], AbstractAsyncContextManager[None]]) -> Starlette:
    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with running():
            yield

    return Starlette(routes=[Route("/mcp", endpoint)], lifespan=lifespan)


class _Stripped:
    """Spaces around a header's value are no part of it, and the HTTP parser leaves them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        await self._app({**scope, "headers": headers}, receive, send)


if __name__ == "__main__":
    main(*sys.argv[1:])
