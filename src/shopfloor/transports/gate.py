"""The gate: what every HTTP request must pass before any route sees it.

Exact Host list, Origin absent or allowed, no cross-site fetches, JSON only, and nothing larger than the limit.
It stands outside the MCP SDK, so that it holds on every route and on every address.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable
from functools import cache

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shopfloor.app import now
from shopfloor.errors import InvalidInput, PermissionDenied, Unavailable
from shopfloor.settings import Settings
from shopfloor.toolkit import refusal

BODY_LIMIT = 1024 * 1024
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_EXPOSED = (b"access-control-expose-headers", b"WWW-Authenticate, Retry-After, Idempotency-Replayed")
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Accept, Authorization, Content-Type, Idempotency-Key, Mcp-Method, Mcp-Name, "
    "Mcp-Protocol-Version, Mcp-Session-Id",
    "Access-Control-Max-Age": "600",
}
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")


class Gate:
    """ASGI middleware around everything."""

    def __init__(self, app: ASGIApp, settings: Settings, is_form: Callable[[str], bool] = lambda path: False) -> None:
        self._app = app
        self._hosts = _hosts(settings)
        self._origins = frozenset(origin.rstrip("/").lower() for origin in settings.allowed_origins)
        self._is_form = is_form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        if (visitor := self._visitor(headers)) is not None:
            send = _readable_by(visitor, send)
            if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                await Response(status_code=204, headers=_PREFLIGHT)(scope, receive, send)
                return
        body = _Body(receive, send)
        try:
            await self._app(scope, body.receive, body.send)
        except asyncio.CancelledError:  # only a server that stops ends a request
            if not body.answered:
                await _cut()(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        host = headers.get("host", "").strip(" \t").lower()
        if _name(host) not in self._hosts or len(headers.getlist("host")) != 1:
            return _no(421, f"Host '{host[:100]}' is not served here", "Add it to the setting allowed_hosts")
        origins = headers.getlist("origin")
        for origin in origins:
            if not self._allowed(origin.strip(" \t").lower(), host):
                return _no(403, f"Origin '{origin[:100]}' is not allowed", "Add it to the setting allowed_origins")
        if not origins and not _at_home(scope["method"], headers):
            return _no(403, "Requests from other sites are not allowed", "Open the page directly")
        if scope["method"] not in _SAFE_METHODS:
            return self._bad_body(scope, headers)
        return None

    def _visitor(self, headers: Headers) -> str | None:
        """The page of another site that calls and may."""
        origin = headers.get("origin", "").strip(" \t")
        return origin if origin.lower() in self._origins else None

    def _allowed(self, origin: str, host: str) -> bool:
        return origin in self._origins or origin in (f"http://{host}", f"https://{host}")

    def _bad_body(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        kinds = [kind.partition(";")[0].strip().lower() for kind in headers.getlist("content-type")]
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        told = kinds == ["application/json"] or self._is_form(scope["path"])
        if (has_body or scope["method"] == "POST") and not told:
            return _no(415, "Only application/json is accepted", "Send Content-Type: application/json")
        if headers.get("content-encoding", "identity").strip(" \t").lower() != "identity":
            return _no(415, "A body is taken only as it is", "Leave Content-Encoding out, and send plain JSON")
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            return _no(400, "Content-Length is not a number", "Send a plain request")
        return _too_large() if int(length) > BODY_LIMIT else None


def _readable_by(origin: str, send: Send) -> Send:
    """Lets the browser show the answers to that page; never with its cookies."""
    extra = [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"Origin"), _EXPOSED]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        await send(message)

    return sending


class _Body:
    """Counts what arrives, so that a body without a length is stopped at the limit as well; and knows who was answered."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._count = 0
        self._refused = False
        self.answered = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or self._refused:
            return message
        self._count += len(message.get("body", b""))
        if self._count <= BODY_LIMIT:
            return message
        self._refused = self.answered = True
        response = _too_large()
        await self._send({"type": "http.response.start", "status": 413, "headers": response.raw_headers})
        await self._send({"type": "http.response.body", "body": response.body})
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if not self._refused:
            self.answered = True
            await self._send(message)


def _hosts(settings: Settings) -> frozenset[str]:
    named = {name.lower() for name in settings.allowed_hosts} | _LOOPBACK
    if settings.loopback:
        return frozenset(named | {_name(settings.host)})
    return frozenset(named | {settings.host.lower()} | _own_names())


@cache
def _own_names() -> frozenset[str]:
    """The names and addresses by which other machines may reach this one."""
    name = socket.gethostname()
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    except OSError:
        addresses = set()
    return frozenset({name.lower(), socket.getfqdn().lower()} | {f"[{a}]" if ":" in a else a for a in addresses})


def _name(host: str) -> str:
    """A Host header without its port; nothing when it is no such header."""
    match = _HOST.fullmatch(host)
    return match[1] if match else ""


def _at_home(method: str, headers: Headers) -> bool:
    """No page of another site sent this, except by a plain link."""
    if set(headers.getlist("sec-fetch-site")) <= {"none", "same-origin"}:
        return True
    return method in _SAFE_METHODS and headers.get("sec-fetch-mode") == "navigate"


def _too_large() -> JSONResponse:
    return _no(413, f"The body is larger than {BODY_LIMIT} bytes", "Send less at once")


def _cut() -> JSONResponse:
    """The answer to a call that the end of the server overtook."""
    error = Unavailable(
        "The floor stopped before this call ended; whether it took effect is unknown",
        hint="Send it again with the same idempotency key, or look before you send it again",
    )
    return JSONResponse(refusal(error, error.message, now()), 503, {"Retry-After": "1", "Connection": "close"})


def _no(status: int, message: str, hint: str) -> JSONResponse:
    kind = PermissionDenied if status in (403, 421) else InvalidInput
    return JSONResponse(refusal(kind(message, hint=hint), message, now()), status)
