"""Send HTTP over a socket, for requests that client libraries refuse to send."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.transports.server import PATIENCE

Header = tuple[str, str]


@dataclass(frozen=True)
class Reply:
    """A response; its status is 0 when the connection was closed without one."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def send_request(
    address: tuple[str, int],
    method: str = "POST",
    target: str = "/mcp/execute",
    headers: Iterable[Header] = (),
    body: bytes | str = b"",
    *,
    host: bool = True,
    length: bool = True,
) -> Reply:
    """Send one request with exactly these headers and return the response."""
    payload = body.encode() if isinstance(body, str) else body
    lines = [f"{method} {target} HTTP/1.1"]
    if host:
        lines.append(f"Host: {address[0]}:{address[1]}")
    lines += [f"{name}: {value}" for name, value in headers]
    if length:
        lines.append(f"Content-Length: {len(payload)}")
    lines.append("Connection: close")
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return send(address, head + payload, method)


def send(address: tuple[str, int], data: bytes, method: str = "POST") -> Reply:
    """Send these bytes and return the first response."""
    with socket.create_connection(address, PATIENCE) as connection:
        connection.sendall(data)
        response = http.client.HTTPResponse(connection, method=method)
        try:
            response.begin()
            content = response.read()
        except (http.client.HTTPException, ConnectionError):
            return Reply(0, {}, b"")
        return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, content)


def read_until_closed(address: tuple[str, int], data: bytes) -> bytes:
    """Send these bytes and return everything until the server closes the connection."""
    with socket.create_connection(address, PATIENCE) as connection:
        received = b""
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
            while more := connection.recv(65536):
                received += more
        return received
