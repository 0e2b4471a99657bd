from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shopfloor.settings import Settings
from shopfloor.transports.gate import Gate, is_remote
from shopfloor.transports.headers import read_headers


def build_scope(**headers: str) -> dict[str, Any]:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": "GET", "path": "/", "headers": pairs, "client": ("127.0.0.1", 1)}


def send_request(settings: Settings, host: str) -> int:
    """Return the status of a request that passes the gate, or is rejected by it."""
    statuses: list[int] = []

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    asyncio.run(Gate(serve, settings)(build_scope(host=host), receive, send))
    return statuses[0]


@pytest.mark.parametrize("setting", [{}, {"host": "::1"}, {"allowed_hosts": ("",)}], ids=str)
def test_malformed_host_is_rejected_on_every_address(tmp_path: Path, setting: dict[str, Any]):
    settings = Settings(project=tmp_path, **setting)
    assert send_request(settings, "[::1]:3001") == 200
    # Browsers accept such names, and their owner can let them resolve to this machine.
    for host in ("a~b.evil.example", "a~b.evil.example:3001", "evil.example:123456", ""):
        assert send_request(settings, host) == 421


@pytest.mark.parametrize("name", ["forwarded", "x_forwarded_host", "x_client_ip", "cf_connecting_ip", "cdn_loop"])
def test_request_with_a_header_of_a_proxy_is_not_from_this_machine(name: str):
    scope = build_scope(**{name: "203.0.113.7"})
    assert is_remote(scope, read_headers(scope))
