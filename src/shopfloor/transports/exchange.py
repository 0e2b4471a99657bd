"""One call, one answer: how MCP clients call tools, without a session made for each request.

The SDK serves a request of the handshake era through a transport, streams and tasks of its own, which cost more than
everything behind them, and one of the stateless era through several layers. Here it goes straight to the SDK's driver
for single exchanges, which checks and answers as it does elsewhere. Whatever is not exactly a plain call of a tool
takes the SDK's way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_one
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import InboundModernRoute, classify_inbound_request, find_duplicated_routing_header
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, SUPPORTED_PROTOCOL_VERSIONS
from pydantic_core import ValidationError, from_json, to_json
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

METHOD = "tools/call"
_UNSAID = "2025-03-26"
"""The revision of a client that names none."""
_ACCEPTED = ("application/json", "text/event-stream")
_MESSAGE = {"jsonrpc", "id", "method", "params"}
_PARAMS = {"name", "arguments", "_meta"}


@dataclass(frozen=True, slots=True)
class PlainCall:
    """A tool, called by a client that waits for nothing but the answer."""

    id: str | int
    params: Mapping[str, Any]
    route: InboundModernRoute
    """The revision, and what the client says of itself."""


def plain_call(server: Server[Any], headers: Headers, body: bytes) -> PlainCall | None:
    """What the request is, if it is that and nothing else."""
    versions = headers.getlist("mcp-protocol-version") or [_UNSAID]
    accepted = headers.get("accept", "")
    if len(versions) != 1 or versions[0] not in SUPPORTED_PROTOCOL_VERSIONS:
        return None
    if not all(kind in accepted for kind in _ACCEPTED):
        return None
    try:
        message = from_json(body, allow_inf_nan=False)
    except ValueError:
        return None
    if not (isinstance(message, dict) and message.keys() == _MESSAGE and message["jsonrpc"] == "2.0"):
        return None
    id, params = message["id"], message["params"]
    if message["method"] != METHOD or type(id) not in (str, int) or not _is_plain(params):
        return None
    route = _route(server, versions[0], headers, message)
    return None if route is None else PlainCall(id, params, route)


def _route(
    server: Server[Any], version: str, headers: Headers, message: Mapping[str, Any]
) -> InboundModernRoute | None:
    """By which revision the call is made; in the stateless era the headers must say what the body says."""
    if version in HANDSHAKE_PROTOCOL_VERSIONS:
        return InboundModernRoute(version, None, None)
    sent = headers.items()
    mirrored = server.get_tool_input_schema and server.get_tool_input_schema(message["params"]["name"])
    if mirrored is not None or find_duplicated_routing_header(sent) is not None:
        return None
    route = classify_inbound_request(message, headers=dict(sent))
    return route if isinstance(route, InboundModernRoute) else None


def _is_plain(params: Any) -> bool:
    if not (isinstance(params, dict) and params.keys() <= _PARAMS and isinstance(params.get("name"), str)):
        return False
    arguments, meta = params.get("arguments", {}), params.get("_meta", {})
    return isinstance(arguments, dict) and isinstance(meta, dict) and "progressToken" not in meta


async def answer(server: Server[Any], call: PlainCall, scope: Scope, receive: Receive, send: Send) -> bool:
    """Make the call and send its answer; false when the SDK did not even accept the request, and nothing happened."""
    exchange = _Exchange(call.id, ServerMessageMetadata(request_context=Request(scope, receive)))
    route = call.route
    connection = Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)
    try:
        result = await serve_one(server, exchange, METHOD, call.params, connection=connection, lifespan_state={})
        said = {"result": result}
    except ValidationError:
        return False
    except MCPError as error:
        said = {"error": error.error.model_dump(by_alias=True, exclude_none=True)}
    body = to_json({"jsonrpc": "2.0", "id": call.id, **said})
    await Response(body, headers={"Content-Type": "application/json"})(scope, receive, send)
    return True


@dataclass(slots=True)
class _Exchange:
    """What the SDK knows a request by; nothing goes back to the client but the answer."""

    request_id: str | int
    message_metadata: ServerMessageMetadata
    transport: TransportContext = field(
        default_factory=lambda: TransportContext(kind="streamable-http", can_send_request=False)
    )
    cancel_requested: Any = field(default_factory=asyncio.Event)
    can_send_request: bool = False

    async def send_raw_request(self, method: str, *_: Any, **__: Any) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(self, *_: Any, **__: Any) -> None:
        pass

    async def progress(self, *_: Any, **__: Any) -> None:
        pass
