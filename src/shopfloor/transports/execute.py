"""POST /mcp/execute: every toolset of the profile, in the factory's envelope, with a fitting HTTP status."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shopfloor.app import Floor, now
from shopfloor.errors import (
    InvalidInput,
    KeyReused,
    NotFound,
    PermissionDenied,
    RateLimited,
    ShopfloorError,
    Unauthenticated,
    Unavailable,
    WrongState,
)
from shopfloor.toolkit import Answer, Call, Credential, Toolset, enveloped
from shopfloor.transports.auth import challenge, credential_of, trace_of
from shopfloor.transports.bodies import parse, read_body

STATUS: list[tuple[type[ShopfloorError], int]] = [
    (KeyReused, 409),
    (WrongState, 409),
    (InvalidInput, 422),
    (Unauthenticated, 401),
    (PermissionDenied, 403),
    (NotFound, 404),
    (RateLimited, 429),
    (Unavailable, 503),
]
_FIELDS = {"agentId", "toolName", "input", "idempotencyKey"}


class Execute:
    """The door of the factory contract, as an ASGI application."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._toolset_of = {tool: toolset for toolset in floor.profile for tool in toolset.tools}
        self._default = floor.profile[0]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            call = self._call(headers, parse(await read_body(receive)))
            answer = await self._floor.acall(call)
        except ClientDisconnect:
            return
        except ShopfloorError as error:  # before there was a call
            malformed = 400 if isinstance(error, InvalidInput) else None
            answer = _refused(self._default, error)
            await self._respond(answer, headers, scope, receive, send, malformed)
            return
        await self._respond(answer, headers, scope, receive, send)

    def _call(self, headers: Headers, body: Any) -> Call:
        if not isinstance(body, dict):
            raise InvalidInput("The body must be an object with toolName and input")
        unknown = sorted(set(body) - _FIELDS)
        if unknown:
            raise InvalidInput(f"Unknown field '{unknown[0][:64]}'; allowed: {', '.join(sorted(_FIELDS))}")
        name, claim = body.get("toolName"), body.get("agentId")
        keys: list[Any] = [key.strip(" \t") for key in headers.getlist("idempotency-key")]
        if (key := body.get("idempotencyKey")) is not None:
            keys.append(key)
        if not isinstance(name, str) or not name:
            raise InvalidInput("toolName is required: the name of the tool to call")
        if not isinstance(claim, str | None) or claim == "" or not isinstance(key, str | None):
            raise InvalidInput("agentId and idempotencyKey are text, or left out")
        if any(key != keys[0] for key in keys):
            raise InvalidInput("Send one idempotency key, in the header or in the body")
        given = body.get("input")
        return Call(
            toolset=self._toolset_of.get(name, self._default),
            name=name,
            input={} if given is None else given,
            credential=credential_of(headers),
            door="execute",
            claim=claim,
            key=keys[0] if keys else None,
            session=headers.get("mcp-session-id"),
            trace=trace_of(self._floor, headers),
        )

    async def _respond(
        self, answer: Answer, sent: Headers, scope: Scope, receive: Receive, send: Send, status: int | None = None
    ) -> None:
        status = status or status_of(answer.error)
        headers: dict[str, str] = retry_after(answer.error)
        if status == 401:
            headers |= challenge(self._floor, str(Request(scope).base_url), sent)
        if answer.call.replayed:
            headers["Idempotency-Replayed"] = "true"
        await Response(to_json(enveloped(answer)), status, headers, "application/json")(scope, receive, send)


def status_of(error: ShopfloorError | None) -> int:
    """The HTTP status beside a body that says the same."""
    if error is None:
        return 200
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def retry_after(error: ShopfloorError | None) -> dict[str, str]:
    """When to come back."""
    if isinstance(error, RateLimited):
        return {"Retry-After": str(error.facts["seconds"])}
    return {"Retry-After": "1"} if isinstance(error, Unavailable) else {}


def _refused(toolset: Toolset, error: ShopfloorError) -> Answer:
    call = Call(toolset, "", {}, Credential(), "execute", finished=now())
    return Answer(toolset.refuse(error, call), call, error)
