"""MCP over the standard streams of this process."""

from __future__ import annotations

from collections.abc import Sequence

from mcp.server.stdio import stdio_server

from shopfloor.app import Floor
from shopfloor.toolkit import Credential, Toolset
from shopfloor.transports import mcp


async def serve(floor: Floor, toolsets: Sequence[Toolset], credential: Credential) -> None:
    """Answer on the standard output until the standard input ends."""
    server = mcp.server(floor, toolsets, "stdio", credential)
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())
