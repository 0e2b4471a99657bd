"""A plain `tools/call` without an SDK session per request.

A plain call goes straight to the SDK's driver for single exchanges, which validates and answers like its transport.
Every other request takes the SDK's own path; tests/transports/test_direct_call.py compares the two.
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
from pydantic_core import ValidationError, to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shopfloor.transports.headers import RequestHeaders

# The SDK serves each request of the handshake revisions through its own transport, streams and tasks. That took 650 µs,
# more than the call itself; here it takes 150 µs. A call of the stateless revision took 330 µs.
METHOD = "tools/call"
# The revision of a client that sends no version header.
DEFAULT_VERSION = "2025-03-26"
_ACCEPT_TYPES = ("application/json", "text/event-stream")
_MESSAGE_KEYS = {"jsonrpc", "id", "method", "params"}
_PARAM_KEYS = {"name", "arguments", "_meta"}


@dataclass(frozen=True, slots=True)
class SimpleCall:
    """A tool call whose client waits only for the result: no progress, no notifications."""

    id: str | int
    params: Mapping[str, Any]
    # The revision, and the client's own description.
    route: InboundModernRoute


def parse_simple_call(server: Server[Any], headers: RequestHeaders, message: Any) -> SimpleCall | None:
    """Return the call if the message, parsed JSON, is a plain one, or None for the SDK's own path."""
    versions = headers.list("mcp-protocol-version") or [DEFAULT_VERSION]
    accepted = headers.find("accept")
    if len(versions) != 1 or versions[0] not in SUPPORTED_PROTOCOL_VERSIONS:
        return None
    # Any other request is left to the SDK, which rejects it in its own words or supports it.
    if not all(kind in accepted for kind in _ACCEPT_TYPES):
        return None
    if not (isinstance(message, dict) and message.keys() == _MESSAGE_KEYS and message["jsonrpc"] == "2.0"):
        return None
    id, params = message["id"], message["params"]
    # bool is an int to isinstance, but not a JSON-RPC id.
    if message["method"] != METHOD or type(id) not in (str, int) or not isinstance(params, dict):
        return None
    if not params.keys() <= _PARAM_KEYS or not isinstance(params.get("name"), str):
        return None
    arguments, meta = params.get("arguments", {}), params.get("_meta", {})
    if not isinstance(arguments, dict) or not isinstance(meta, dict) or "progressToken" in meta:
        return None
    if versions[0] in HANDSHAKE_PROTOCOL_VERSIONS:
        return SimpleCall(id, params, InboundModernRoute(versions[0], None, None))
    # In the stateless revision, headers repeat parts of the body, and both must agree. If a header carries an argument
    # or is sent twice, the SDK's own path decides.
    sent = headers.pairs
    mirrored = server.get_tool_input_schema and server.get_tool_input_schema(params["name"])
    if mirrored is not None or find_duplicated_routing_header(sent) is not None:
        return None
    route = classify_inbound_request(message, headers=dict(sent))
    return SimpleCall(id, params, route) if isinstance(route, InboundModernRoute) else None


async def respond(server: Server[Any], call: SimpleCall, scope: Scope, receive: Receive, send: Send) -> bool:
    """Run the call and send its response. Return False if the SDK rejected the request before it ran."""
    exchange = _Exchange(call.id, ServerMessageMetadata(request_context=Request(scope, receive)))
    route = call.route
    connection = Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)
    try:
        result = await serve_one(server, exchange, METHOD, call.params, connection=connection, lifespan_state={})
        outcome = {"result": result}
    except ValidationError:
        return False
    except MCPError as error:
        outcome = {"error": error.error.model_dump(by_alias=True, exclude_none=True)}
    body = to_json({"jsonrpc": "2.0", "id": call.id, **outcome})
    await Response(body, headers={"Content-Type": "application/json"})(scope, receive, send)
    return True


@dataclass(slots=True)
class _Exchange:
    """The SDK's view of a request; only the response goes back to the client."""

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
