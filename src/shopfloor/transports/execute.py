"""POST /mcp/execute: every toolset of the profile, in the factory contract's envelope, with an HTTP status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shopfloor.engine import Engine
from shopfloor.errors import (
    IdempotencyKeyReused,
    InvalidInput,
    InvalidState,
    NotFound,
    PermissionDenied,
    RateLimited,
    ShopfloorError,
    Unauthenticated,
    Unavailable,
)
from shopfloor.gateways.clock import now
from shopfloor.toolkit import DISCONNECTED_KEY, Credential, Json, Request, error_envelope, to_envelope
from shopfloor.transports.auth import authenticate, challenge_headers, read_trace
from shopfloor.transports.bodies import parse_json, read_body
from shopfloor.transports.disconnect import call_unless_disconnected
from shopfloor.transports.headers import read_headers

# The first match wins, so a subclass is listed before its base class.
HTTP_STATUS: list[tuple[type[ShopfloorError], int]] = [
    (IdempotencyKeyReused, 409),
    (InvalidState, 409),
    (InvalidInput, 422),
    (Unauthenticated, 401),
    (PermissionDenied, 403),
    (NotFound, 404),
    (RateLimited, 429),
    (Unavailable, 503),
]
_FIELDS = {"agentId", "toolName", "input", "idempotencyKey"}


class Execute:
    """The endpoint as an ASGI application."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._toolset_of = {tool: toolset for toolset in engine.profile for tool in toolset.tools}
        self._default = engine.profile[0]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            raise HTTPException(405, headers={"Allow": "POST"})
        try:
            # The credential is checked before the body: a caller without one must not learn the shape of a body from
            # errors.
            credential = await authenticate(self._engine, scope)
            request = self._parse_request(credential, scope, parse_json(await read_body(receive)))
            result = await call_unless_disconnected(self._engine, request, receive)
        except ClientDisconnect:
            return
        except ShopfloorError as error:
            # There is no request yet, so no contract can render it.
            response = self._respond(error_envelope(error, error.message, now()), error, malformed=True)
        else:
            malformed = result.error is not None and result.error is request.envelope_error
            response = self._respond(to_envelope(result), result.error, malformed=malformed)
            if result.record.replayed:
                response.headers["Idempotency-Replayed"] = "true"
        if response.status_code == 401:
            response.headers.update(challenge_headers(self._engine, scope))
        await response(scope, receive, send)

    def _parse_request(self, credential: Credential, scope: Scope, body: Any) -> Request:
        headers = read_headers(scope)
        if not isinstance(body, dict):
            raise InvalidInput("The body must be an object with toolName and input")
        name, given = body.get("toolName"), body.get("input")
        if not isinstance(name, str) or not name:
            raise InvalidInput("toolName is required: the name of the tool to call")
        claimed_name, key, envelope_error = body.get("agentId"), None, None
        # An error in the envelope is raised later, as part of a call of this tool, so that it is logged.
        try:
            unknown = sorted(set(body) - _FIELDS)
            if unknown:
                raise InvalidInput(f"Unknown field '{unknown[0][:64]}'; allowed: {', '.join(sorted(_FIELDS))}")
            if not isinstance(claimed_name, str | None) or claimed_name == "":
                raise InvalidInput("agentId must be a non-empty string")
            key = read_idempotency_key(headers.list("idempotency-key"), body.get("idempotencyKey"))
        except InvalidInput as error:
            claimed_name, envelope_error = None, error
        return Request(
            toolset=self._toolset_of.get(name, self._default),
            tool_name=name,
            input={} if given is None else given,
            credential=credential,
            transport="execute",
            claimed_name=claimed_name,
            idempotency_key=key,
            session=headers.find("mcp-session-id") or None,
            trace=read_trace(self._engine, headers.find),
            is_abandoned=lambda: DISCONNECTED_KEY in scope,
            envelope_error=envelope_error,
        )

    def _respond(self, body: Json, error: ShopfloorError | None, *, malformed: bool) -> Response:
        # 400 means that the request is malformed, 422 that the tool rejects its input.
        status = 400 if malformed and isinstance(error, InvalidInput) else http_status(error)
        return Response(to_json(body), status, retry_after_header(error), "application/json")


def http_status(error: ShopfloorError | None) -> int:
    """Return the HTTP status of an error."""
    if error is None:
        return 200
    return next((status for kind, status in HTTP_STATUS if isinstance(error, kind)), 500)


def retry_after_header(error: ShopfloorError | None) -> dict[str, str]:
    """Return the Retry-After header of an error, if it has one."""
    if isinstance(error, RateLimited):
        return {"Retry-After": str(error.facts["seconds"])}
    return {"Retry-After": "1"} if isinstance(error, Unavailable) else {}


def read_idempotency_key(sent: Sequence[str], given: Any) -> str | None:
    """Return the idempotency key of the header or the body; if both are given they must agree."""
    if not isinstance(given, str | None):
        raise InvalidInput("idempotencyKey must be a string", field="idempotencyKey")
    keys = [key.strip(" \t") for key in sent] + ([] if given is None else [given])
    if any(key != keys[0] for key in keys):
        raise InvalidInput("The idempotency keys in header and body differ", field="idempotencyKey")
    return keys[0] if keys else None
