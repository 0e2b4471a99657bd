"""Requests as bytes, one for each door and each caller."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from bench.bare import ECHO
from bench.tools import BODY, TITLE, Measured

OLDER, NEWER = "2025-11-25", "2026-07-28"
DOORS = ("execute", f"MCP {OLDER}", f"MCP {NEWER}")
SAID = {"title": TITLE, "body": BODY}


def bare(door: str) -> list[str]:
    """The echo request of a door."""
    if door == "execute":
        return [_post("/echo", {"toolName": ECHO, "input": SAID})]
    return [_mcp(door, ECHO, SAID, None)]


def ours(door: str, tool: Measured, tokens: Mapping[str, str]) -> list[str]:
    """The request of each agent at a door."""
    if door == "execute":
        return [
            _post("/mcp/execute", {"agentId": agent, "toolName": tool.name, "input": tool.input}, token)
            for agent, token in tokens.items()
        ]
    return [_mcp(door, tool.name, tool.input, token) for token in tokens.values()]


def _mcp(door: str, tool: str, arguments: Mapping[str, Any], token: str | None) -> str:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": OLDER}
    if door.endswith(NEWER):
        headers |= {"MCP-Protocol-Version": NEWER, "Mcp-Method": "tools/call", "Mcp-Name": tool}
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": NEWER,
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return _post("/mcp", request, token, headers)


def _post(path: str, body: Any, token: str | None = None, headers: Mapping[str, str] | None = None) -> str:
    content = json.dumps(body).encode()
    lines = {
        "Host": "127.0.0.1",
        "Content-Type": "application/json",
        "Content-Length": str(len(content)),
        **({} if token is None else {"Authorization": f"Bearer {token}"}),
        **(headers or {}),
    }
    head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return base64.b64encode(head.encode() + b"\r\n" + content).decode()
