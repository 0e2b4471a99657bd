"""Requests as bytes, one for each transport and caller."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from bench.baselines import ECHO
from bench.tools import BODY, TITLE, Measured

OLDER, NEWER = "2025-11-25", "2026-07-28"
TRANSPORTS = ("execute", f"MCP {OLDER}", f"MCP {NEWER}")
ECHO_ARGUMENTS = {"title": TITLE, "body": BODY}


def build_echo_requests(transport: str) -> list[str]:
    """Return the echo request of a transport."""
    if transport == "execute":
        return [_post("/echo", {"toolName": ECHO, "input": ECHO_ARGUMENTS})]
    return [_mcp(transport, ECHO, ECHO_ARGUMENTS, None)]


def build_tool_requests(transport: str, tool: Measured, tokens: Mapping[str, str]) -> list[str]:
    """Return the request of each agent over a transport."""
    if transport == "execute":
        return [
            _post("/mcp/execute", {"agentId": agent, "toolName": tool.name, "input": tool.input}, token)
            for agent, token in tokens.items()
        ]
    return [_mcp(transport, tool.name, tool.input, token) for token in tokens.values()]


def _mcp(transport: str, tool: str, arguments: Mapping[str, Any], token: str | None) -> str:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": OLDER}
    if transport.endswith(NEWER):
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
