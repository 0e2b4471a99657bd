"""Credentials at the HTTP doors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.datastructures import Headers

from shopfloor.app import Floor
from shopfloor.errors import Unauthenticated
from shopfloor.toolkit import Credential

TRACE = ("traceparent", "tracestate")
METADATA = "/.well-known/oauth-protected-resource"


def credential_of(headers: Headers) -> Credential:
    """What the Authorization header shows; a malformed one is no credential but an error."""
    shown = headers.getlist("authorization")
    if not shown:
        return Credential()
    scheme, _, token = shown[0].strip().partition(" ")
    if len(shown) > 1 or scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("Send exactly one header: Authorization: Bearer TOKEN")
    return Credential(token=token.strip())


async def authenticate(floor: Floor, headers: Headers) -> Credential:
    """The credential, proven: the rest of this request can rely on it, until it has waited for something."""
    credential = credential_of(headers)
    if floor.identity.at_hand(credential):
        actor = floor.identity.authenticate(credential)
    else:
        actor = await asyncio.get_running_loop().run_in_executor(None, floor.identity.authenticate, credential)
    return Credential(token=credential.token, trusted=actor)


def trace_of(floor: Floor, *sent: Mapping[str, str]) -> dict[str, str]:
    """The span that a request belongs to, where traces are kept; the first that names one counts."""
    if floor.traces is None:
        return {}
    named = next((headers for headers in sent if isinstance(headers.get(TRACE[0]), str)), {})
    return {name: named[name] for name in TRACE if isinstance(named.get(name), str)}


def challenge(floor: Floor, base_url: str, sent: Mapping[str, str]) -> dict[str, str]:
    """The WWW-Authenticate header of a 401."""
    parts = ['Bearer realm="shopfloor"']
    if "authorization" in sent:
        parts.append('error="invalid_token"')
    if floor.settings.issuer:
        parts.append(f'resource_metadata="{base_url.rstrip("/")}{METADATA}"')
    return {"WWW-Authenticate": ", ".join(parts)}


def metadata(floor: Floor, base_url: str) -> dict[str, object]:
    """The OAuth protected-resource metadata."""
    return {
        "resource": f"{base_url.rstrip('/')}/mcp",
        "authorization_servers": [floor.settings.issuer],
        "bearer_methods_supported": ["header"],
    }
