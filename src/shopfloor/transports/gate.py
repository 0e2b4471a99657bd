"""The gate: checks that every HTTP request must pass before a route sees it.

Exact Host list, Origin absent or allowed, no cross-site fetches, JSON only, and a size limit. It is outside the MCP
SDK, so that it applies to every route and every address.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import re
import socket
from collections.abc import Callable
from functools import cache

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shopfloor.errors import InvalidInput, PermissionDenied, Unavailable
from shopfloor.gateways.clock import now
from shopfloor.settings import Settings
from shopfloor.toolkit import REMOTE_KEY, error_envelope
from shopfloor.transports.headers import RequestHeaders, read_headers

MAX_BODY_BYTES = 1024 * 1024
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_EXPOSED_HEADERS = (b"access-control-expose-headers", b"WWW-Authenticate, Retry-After, Idempotency-Replayed")
_PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Accept, Authorization, Content-Type, Idempotency-Key, Mcp-Method, Mcp-Name, "
    "Mcp-Protocol-Version, Mcp-Session-Id",
    "Access-Control-Max-Age": "600",
}
_PROXY_HEADERS = frozenset(
    {"forwarded", "via", "x-real-ip", "x-client-ip", "cf-connecting-ip", "true-client-ip", "cdn-loop"}
)
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")


class Gate:
    """ASGI middleware around all routes."""

    def __init__(self, app: ASGIApp, settings: Settings, is_form: Callable[[str], bool] = lambda path: False) -> None:
        self._app = app
        hosts = {name.lower() for name in settings.allowed_hosts} | _LOOPBACK
        if settings.public_url:
            hosts.add(_host_name(settings.public_url.partition("://")[2].lower()))
        own = {_host_name(settings.host)} if settings.loopback else {settings.host.lower()} | _own_host_names()
        # Empty is what a malformed Host header becomes, and `::1`, which has no brackets as a setting.
        self._hosts = frozenset(hosts | own) - {""}
        self._origins = frozenset(origin.rstrip("/").lower() for origin in settings.allowed_origins)
        self._is_form = is_form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = read_headers(scope)
        scope[REMOTE_KEY] = is_remote(scope, headers)
        rejection = self._check(scope, headers)
        if rejection is not None:
            await rejection(scope, receive, send)
            return
        origin = headers.find("origin")
        if origin.lower() in self._origins:
            send = _with_cors_headers(origin, send)
            if scope["method"] == "OPTIONS" and headers.list("access-control-request-method"):
                await Response(status_code=204, headers=_PREFLIGHT_HEADERS)(scope, receive, send)
                return
        body = _Body(receive, send)
        try:
            await self._app(scope, body.receive, body.send)
        except asyncio.CancelledError:
            # Only a stopping server cancels a request. Its write may have committed: say so, and how to find out.
            if not body.answered:
                error = Unavailable(
                    "The server stopped before this call ended; whether it took effect is unknown",
                    hint="Retry with the same idempotency key, or check whether it took effect first",
                )
                response_headers = {"Retry-After": "1", "Connection": "close"}
                response = JSONResponse(error_envelope(error, error.message, now()), 503, response_headers)
                await response(scope, receive, send)

    def _check(self, scope: Scope, headers: RequestHeaders) -> JSONResponse | None:
        host = headers.find("host").lower()
        # A page of another site can resolve its own name to this machine (DNS rebinding); the Host header reveals it.
        if _host_name(host) not in self._hosts or len(headers.list("host")) != 1:
            return _reject(421, f"Host '{host[:100]}' is not served here", "Add it to the setting allowed_hosts")
        origins = headers.list("origin")
        for origin in origins:
            # A page of this server has its own address as origin, with http or, behind a proxy, https.
            own = (f"http://{host}", f"https://{host}")
            if (name := origin.lower()) not in self._origins and name not in own:
                return _reject(403, f"Origin '{origin[:100]}' is not allowed", "Add it to the setting allowed_origins")
        # Browsers omit Origin from GET requests, but send Sec-Fetch-Site. A plain link from another site is allowed:
        # the other site's page cannot read the response.
        is_same_site = set(headers.list("sec-fetch-site")) <= {"none", "same-origin"}
        is_link = scope["method"] in _SAFE_METHODS and headers.find("sec-fetch-mode") == "navigate"
        if not origins and not is_same_site and not is_link:
            return _reject(403, "Requests from other sites are not allowed", "Open the page directly")
        if scope["method"] in _SAFE_METHODS:
            return None
        kinds = [kind.partition(";")[0].strip().lower() for kind in headers.list("content-type")]
        codings = [coding.lower() for coding in headers.list("transfer-encoding")]
        # A coding that is not undone here, such as gzip, or that a proxy may read in another way.
        if codings not in ([], ["chunked"]):
            return _reject(501, "Transfer-Encoding is not supported, except chunked", "Send plain JSON")
        has_body = bool(codings) or headers.find("content-length", "0") != "0"
        # Pages of other sites can send forms and plain text without a preflight request, but not JSON.
        is_accepted = kinds == ["application/json"] or self._is_form(scope["path"])
        if (has_body or scope["method"] == "POST") and not is_accepted:
            return _reject(415, "Only application/json is accepted", "Send Content-Type: application/json")
        if headers.find("content-encoding", "identity").lower() != "identity":
            return _reject(415, "Content-Encoding is not supported", "Send plain JSON")
        # int() accepts signs, underscores and digits of other scripts.
        length = headers.find("content-length", "0")
        if not length.isascii() or not length.isdigit():
            return _reject(400, "Content-Length is not a number", "Send a plain request")
        return _reject_size() if int(length) > MAX_BODY_BYTES else None


def is_remote(scope: Scope, headers: RequestHeaders) -> bool:
    """Return whether a request came from another machine, directly or through a proxy on this one."""
    # A proxy on this machine has a loopback address as well. Its headers show that it forwards requests of others.
    for name in headers.names:
        if name in _PROXY_HEADERS or name.startswith("x-forwarded-"):
            return True
    client = scope.get("client")
    return client is not None and not _is_loopback(client[0])


# Parsing an address takes 3 % of a call, and most calls come from a few addresses.
@functools.lru_cache(maxsize=1024)
def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _with_cors_headers(origin: str, send: Send) -> Send:
    """Let the browser show the response to that origin."""
    # Without these headers a browser neither sends the request nor shows the page its response.
    # Access-Control-Allow-Credentials is left out: cookies are never accepted from other origins.
    extra = [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"Origin"), _EXPOSED_HEADERS]

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        await send(message)

    return send_with_headers


class _Body:
    """Limit a body without a Content-Length too, and record whether a response has started."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._count = 0
        self._too_large = False
        self.answered = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or self._too_large:
            return message
        self._count += len(message.get("body", b""))
        if self._count <= MAX_BODY_BYTES:
            return message
        # The route may still be reading the body. It sees a disconnect, and what it sends from here on is dropped.
        self._too_large = self.answered = True
        response = _reject_size()
        await self._send({"type": "http.response.start", "status": 413, "headers": response.raw_headers})
        await self._send({"type": "http.response.body", "body": response.body})
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if not self._too_large:
            self.answered = True
            await self._send(message)


@cache
def _own_host_names() -> frozenset[str]:
    """Return the names and addresses by which other machines may reach this one."""
    name = socket.gethostname()
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    except OSError:
        addresses = set()
    return frozenset({name.lower(), socket.getfqdn().lower()} | {f"[{a}]" if ":" in a else a for a in addresses})


def _host_name(host: str) -> str:
    """Return a Host header without its port, or an empty string if it is malformed."""
    match = _HOST.fullmatch(host)
    return match[1] if match else ""


def _reject_size() -> JSONResponse:
    return _reject(413, f"The body is larger than {MAX_BODY_BYTES} bytes", "Send less at once")


def _reject(status: int, message: str, hint: str) -> JSONResponse:
    kind = PermissionDenied if status in (403, 421) else InvalidInput
    return JSONResponse(error_envelope(kind(message, hint=hint), message, now()), status)
