"""The one client for outgoing HTTP requests: webhooks, embeddings and the keys of an issuer.

It follows no redirects: a request with a token or signature goes only to the address it is meant for. Proxies come from
the environment (`HTTPS_PROXY`, `NO_PROXY`), and certificates from the system.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2

# The prefix of NAT64, and the addresses that RFC 4291 calls IPv4-compatible.
_WITH_IPV4_AT_THE_END = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::/96"))


@dataclass(frozen=True, slots=True)
class Response:
    """A response: its status, and its body up to the limit of the request."""

    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


class RequestFailed(Exception):
    """The server cannot be reached, or its response is not HTTP."""


def send_request(
    method: str,
    url: str,
    *,
    timeout: float,
    max_bytes: int,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    total_seconds: float | None = None,
    private_addresses: bool = True,
) -> Response:
    """Send a request and return the response, regardless of its status.

    `timeout` limits the seconds for connecting and for each read and write, `total_seconds` the whole exchange. A body
    beyond `max_bytes` is cut off. Without `private_addresses`, a host of this machine or of a private network is refused
    before anything is sent to it. This requires `total_seconds`.
    """
    import httpx2  # noqa: PLC0415 - 0.1 s, for requests that most processes never send

    limit = _TotalTime(total_seconds, private_addresses=private_addresses)
    try:
        with (
            limit,
            _open_client(keep_alive=total_seconds is None).stream(
                method, url, content=content, headers=headers, timeout=timeout, extensions={"trace": limit.trace}
            ) as response,
        ):
            # Read in pieces up to the limit: the other side decides how much it sends.
            body = b""
            chunks = response.iter_bytes()
            while len(body) < max_bytes and (chunk := next(chunks, None)) is not None:
                body += chunk
            return Response(response.status_code, body[:max_bytes])
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        if limit.refused is not None:
            raise RequestFailed(f"{limit.refused} is a private address; see webhook_private_addresses") from error
        if limit.is_over:
            raise RequestFailed(f"No complete response within {total_seconds} s") from error
        raise RequestFailed(str(error) or type(error).__name__) from error


class _TotalTime:
    """Ends an exchange that takes too long, by shutting down its connection.

    The timeouts of httpx apply to each read: a server that sends a byte every second never exceeds them.
    """

    def __init__(self, seconds: float | None, *, private_addresses: bool = True) -> None:
        self._private_addresses = private_addresses
        self.refused: str | None = None
        self._timer = None if seconds is None else threading.Timer(seconds, self._end)
        self._socket: socket.socket | None = None
        self.is_over = False

    def __enter__(self) -> None:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep the socket of the connection, which httpx exposes only here."""
        # TLS wraps the socket in another object, so it is stored again.
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._socket = info["return_value"].get_extra_info("socket")
            # The time may be over already: without a socket, the lookup of a name cannot be ended.
            if self.is_over:
                self._end()
            # Checks the connected address, not one resolved earlier: a name can change in between.
            if not self._private_addresses and self._socket is not None:
                address = self._socket.getpeername()[0]
                if not is_public_address(address):
                    self.refused = address
                    self._end()

    def _end(self) -> None:
        self.is_over = True
        if self._socket is not None:
            # Not `close`: only a shutdown ends a blocking read on another thread.
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def is_public_address(address: str) -> bool:
    """Return whether an address belongs neither to this machine nor to a private network."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        # Python calls these global, but they lead to the IPv4 address that is a part of them.
        inside = parsed.ipv4_mapped or parsed.sixtofour
        if inside is None and any(parsed in network for network in _WITH_IPV4_AT_THE_END):
            inside = ipaddress.IPv4Address(parsed.packed[-4:])
        if inside is not None:
            return inside.is_global
        if parsed.is_site_local:
            return False
    return parsed.is_global and not parsed.is_multicast


@cache
def _open_client(*, keep_alive: bool) -> httpx2.Client:
    """Open the client of this process. It is safe to share between threads, and keeps connections for five seconds."""
    import httpx2  # noqa: PLC0415

    # No redirects: urllib once forwarded the embedding endpoint's key to a redirect target. Without compression a limit
    # on the body is a limit on memory. A request with a total time limit opens a new connection: it must know which
    # socket to shut down.
    return httpx2.Client(
        limits=httpx2.Limits() if keep_alive else httpx2.Limits(max_keepalive_connections=0),
        follow_redirects=False,
        headers={"User-Agent": "shopfloor", "Accept-Encoding": "identity"},
        trust_env=True,
    )
