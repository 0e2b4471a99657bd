"""The answers to MCP's `initialize` and `server/discover`, without the MCP SDK.

The SDK takes 0.5 s of CPU to import, about as long as everything else that `shopfloor stdio` needs before it can
answer. Clients wait for the first answer before they do anything else, so it is sent before the SDK is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from shopfloor import access
from shopfloor.domain.principals import Principal
from shopfloor.toolkit import Json, Toolset

SERVER_NAME = "shopfloor"
SERVER_TITLE = "Shopfloor"
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The revisions with a handshake. A client that offers any other revision gets the newest of these."""

STATELESS_REVISION = "2026-07-28"
"""The revision without a handshake. Its clients first ask what a server supports."""

_META = "io.modelcontextprotocol/"
_CAPABILITIES = {
    "prompts": {"listChanged": False},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}
_CLIENT_FIELDS = {"name", "version", "title", "description", "websiteUrl"}


def answer_initialize(line: bytes, write_text: Callable[[], str]) -> Json | None:
    """Return the response to a line with an ordinary `initialize` request; None leaves the line to the SDK.

    `write_text` returns the instructions. Only shapes that the SDK accepts are answered here: for any other, its error
    is better than a guess.
    """
    message = _parse(line)
    if not _is_ordinary(message):
        return None
    offered = message["params"]["protocolVersion"]
    result = {
        "protocolVersion": offered if offered in REVISIONS else REVISIONS[-1],
        "capabilities": _CAPABILITIES,
        "serverInfo": _describe_server(),
        "instructions": write_text(),
    }
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def answer_discover(line: bytes, write_text: Callable[[], str]) -> Json | None:
    """Return the response to a line with an ordinary `server/discover` request; None leaves the line to the SDK.

    The SDK must not get a line that is answered here, because it would accept no handshake afterwards. goose 1.50 waits
    10 s for this answer and then sends `initialize`, so on a busy machine it got no tools.
    """
    message = _parse(line)
    if not _is_ordinary_discover(message):
        return None
    result = {
        "resultType": "complete",
        "supportedVersions": [STATELESS_REVISION],
        "capabilities": _CAPABILITIES,
        "instructions": write_text(),
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {f"{_META}serverInfo": _describe_server()},
    }
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _describe_server() -> Json:
    return {"name": SERVER_NAME, "title": SERVER_TITLE, "version": version("shopfloor")}


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def write_instructions(actor: Principal, toolsets: Sequence[Toolset]) -> str:
    """Return the instructions for the model of this caller."""
    caller = access.default_caller(toolsets[0], actor)
    who = [f"You are the agent '{caller.name}'."] if caller.role else []
    texts = access.collect_instructions(actor, toolsets)
    return " ".join([*who, *texts] if texts else [_describe_no_tools(actor, toolsets)])


def _describe_no_tools(actor: Principal, toolsets: Sequence[Toolset]) -> str:
    """Return why the tool list is empty: usually, the token belongs to another toolset."""
    names = ", ".join(toolset.name for toolset in toolsets)
    return (
        f"The token is that of the {actor.kind.value} '{actor.name}', which may call no tool of {names}, so the tool list is empty. "
        "Ask the person to connect to another address of this server, such as /mcp, or with another token."
    )


def _is_ordinary(message: Any) -> bool:
    match message:
        case {
            "jsonrpc": "2.0",
            "method": "initialize",
            "id": str() | int() as id,
            "params": {
                "protocolVersion": str(),
                "capabilities": dict() as capabilities,
                "clientInfo": {"name": str(), "version": str()} as client,
                **other_params,
            },
            **other,
        }:
            return (
                not isinstance(id, bool)
                and not other
                and not other_params
                and _is_ordinary_client(client)
                and _has_ordinary_capabilities(capabilities)
            )
    return False


def _is_ordinary_discover(message: Any) -> bool:
    match message:
        case {
            "jsonrpc": "2.0",
            "method": "server/discover",
            "id": str() | int() as id,
            "params": {"_meta": dict() as meta, **other_params},
            **other,
        }:
            names = {f"{_META}{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities")}
            client, capabilities = meta.get(f"{_META}clientInfo"), meta.get(f"{_META}clientCapabilities")
            return (
                not isinstance(id, bool)
                and not other
                and not other_params
                and meta.keys() == names
                and meta[f"{_META}protocolVersion"] == STATELESS_REVISION
                and isinstance(client, dict)
                and {"name", "version"} <= client.keys()
                and _is_ordinary_client(client)
                and isinstance(capabilities, dict)
                and _has_ordinary_capabilities(capabilities)
            )
    return False


def _is_ordinary_client(client: Mapping[str, Any]) -> bool:
    return client.keys() <= _CLIENT_FIELDS and all(isinstance(value, str) for value in client.values())


def _has_ordinary_capabilities(capabilities: Mapping[str, Any]) -> bool:
    """Return whether every capability is an object of objects. Only `roots` has a flag."""
    return all(
        set(value) <= {"listChanged"} and all(isinstance(flag, bool) for flag in value.values())
        if name == "roots" and isinstance(value, dict)
        else _is_tree(value)
        for name, value in capabilities.items()
    )


def _is_tree(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_tree, value.values()))
