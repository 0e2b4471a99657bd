"""HTTP by hand, for what a well-mannered client library cannot be made to send."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.doors.server import PATIENCE

Header = tuple[str, str]


@dataclass(frozen=True)
class Reply:
    """What came back; status 0 when the connection was closed without an answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def exchange(
    address: tuple[str, int],
    method: str = "POST",
    target: str = "/mcp/execute",
    headers: Iterable[Header] = (),
    body: bytes | str = b"",
    *,
    host: bool = True,
    length: bool = True,
) -> Reply:
    """The reply to one request, every byte of whose head is the caller's choice."""
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
    """The first reply to these bytes."""
    with socket.create_connection(address, PATIENCE) as connection:
        connection.sendall(data)
        response = http.client.HTTPResponse(connection, method=method)
        try:
            response.begin()
            content = response.read()
        except (http.client.HTTPException, ConnectionError):
            return Reply(0, {}, b"")
        return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, content)


def replies(address: tuple[str, int], data: bytes) -> bytes:
    """Everything that comes back until the server closes the connection, as it came."""
    with socket.create_connection(address, PATIENCE) as connection:
        received = b""
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
            while more := connection.recv(65536):
                received += more
        return received
