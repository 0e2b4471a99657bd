"""Credentials of HTTP requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import Scope

from shopfloor.engine import Engine
from shopfloor.errors import Unauthenticated
from shopfloor.toolkit import REMOTE_KEY, Credential
from shopfloor.transports.headers import read_headers

TRACE_HEADERS = ("traceparent", "tracestate")
METADATA_PATH = "/.well-known/oauth-protected-resource"


def read_credential(scope: Scope) -> Credential:
    """Return the credential in the Authorization header; a malformed header is an error."""
    address = (scope.get("client") or ("",))[0]
    shown = read_headers(scope).list("authorization")
    if not shown:
        return Credential(remote=scope[REMOTE_KEY], address=address)
    scheme, _, token = shown[0].partition(" ")
    # Two headers could name two callers, and a proxy in front may have checked the other one.
    if len(shown) > 1 or scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("Send exactly one header: Authorization: Bearer TOKEN")
    return Credential(token=token.strip(), address=address)


async def authenticate(engine: Engine, scope: Scope) -> Credential:
    """Authenticate the request once; later steps rely on the result until the call has waited."""
    credential = read_credential(scope)
    if engine.identity.resolves_locally(credential):
        actor = engine.identity.authenticate(credential)
    else:
        # A slow issuer delays only callers whose token needs its keys.
        executor = engine.issuer_executor if engine.identity.may_wait_for_issuer(credential) else None
        actor = await asyncio.get_running_loop().run_in_executor(executor, engine.identity.authenticate, credential)
    # The token is kept with the principal: a call that has waited checks it again, since it may have been revoked.
    return Credential(token=credential.token, trusted=actor)


def read_trace(engine: Engine, *sources: Callable[[str], Any]) -> dict[str, str]:
    """Return the caller's span, if tracing is on. A source returns a header; the first with a span wins."""
    if not engine.telemetry.tracing:
        return {}
    for find in sources:
        found = {name: value for name in TRACE_HEADERS if isinstance(value := find(name), str) and value}
        if TRACE_HEADERS[0] in found:
            return found
    return {}


def get_public_url(engine: Engine, scope: Scope) -> str:
    """Return the URL of this server as clients see it, without a trailing slash."""
    return engine.settings.public_url or str(HTTPConnection(scope).base_url).rstrip("/")


def challenge_headers(engine: Engine, scope: Scope) -> dict[str, str]:
    """Return the WWW-Authenticate header of a 401."""
    parts = ['Bearer realm="shopfloor"']
    if read_headers(scope).list("authorization"):
        # RFC 6750: a request without a credential gets no error code, only the challenge.
        parts.append('error="invalid_token"')
    if engine.settings.issuer:
        parts.append(f'resource_metadata="{get_public_url(engine, scope)}{METADATA_PATH}"')
    return {"WWW-Authenticate": ", ".join(parts)}


def resource_metadata(engine: Engine, scope: Scope) -> dict[str, object]:
    """Return the OAuth protected-resource metadata."""
    return {
        "resource": f"{get_public_url(engine, scope)}/mcp",
        "authorization_servers": [engine.settings.issuer],
        "bearer_methods_supported": ["header"],
    }
