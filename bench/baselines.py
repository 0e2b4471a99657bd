"""Baselines: an echo on the bare MCP SDK at /mcp, and one on bare Starlette at /echo."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

ECHO = "echo"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "body": {"type": "string"}},
    "required": ["title", "body"],
}


async def _list_tools(_: Any, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name=ECHO, description="Return the arguments", input_schema=SCHEMA)])


async def _call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    arguments = params.arguments or {}
    return types.CallToolResult(content=[types.TextContent(text=json.dumps(arguments))], structured_content=arguments)


async def _echo(request: Request) -> Response:
    return JSONResponse(await request.json())


class _Mcp:
    """The SDK's stateless manager with plain JSON responses."""

    def __init__(self) -> None:
        server: Server[Any] = Server(
            "bare",
            on_list_tools=_list_tools,
            on_call_tool=_call_tool,
            get_tool_input_schema=lambda name: SCHEMA if name == ECHO else None,
        )
        self.manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.manager.handle_request(scope, receive, send)


def _application() -> Starlette:
    endpoint = _Mcp()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with endpoint.manager.run():
            yield

    return Starlette(
        routes=[Route("/echo", _echo, methods=["POST"]), Route("/mcp", endpoint, methods=["POST"])], lifespan=lifespan
    )


def main() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
        config = uvicorn.Config(
            _application(), http="httptools", loop="uvloop", log_config=None, access_log=False, server_header=False
        )
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
