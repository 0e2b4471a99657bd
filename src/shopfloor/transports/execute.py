"""POST /mcp/execute: every toolset of the profile, in the factory's envelope, with a fitting HTTP status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
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
from shopfloor.transports.auth import authenticate, challenge, trace_of
from shopfloor.transports.bodies import parse, read_body
from shopfloor.transports.waiting import answered

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
            raise HTTPException(405, headers={"Allow": "POST"})
        headers = Headers(scope=scope)
        try:
            credential = await authenticate(self._floor, headers)
            call = self._call(credential, headers, parse(await read_body(receive)))
            answer = await answered(self._floor, call, receive)
        except ClientDisconnect:
            return
        except ShopfloorError as error:  # before there was a call
            answer = _refused(self._default, error)
        await self._respond(answer, headers, scope, receive, send)

    def _call(self, credential: Credential, headers: Headers, body: Any) -> Call:
        if not isinstance(body, dict):
            raise InvalidInput("The body must be an object with toolName and input")
        name, given = body.get("toolName"), body.get("input")
        if not isinstance(name, str) or not name:
            raise InvalidInput("toolName is required: the name of the tool to call")
        call = Call(
            toolset=self._toolset_of.get(name, self._default),
            name=name,
            input={} if given is None else given,
            credential=credential,
            door="execute",
            session=headers.get("mcp-session-id"),
            trace=trace_of(self._floor, headers),
        )
        try:
            call.claim, call.key = _around(headers, body)
        except InvalidInput as error:
            call.fault = error
        return call

    async def _respond(self, answer: Answer, sent: Headers, scope: Scope, receive: Receive, send: Send) -> None:
        malformed = isinstance(answer.error, InvalidInput) and answer.error is answer.call.fault
        status = 400 if malformed else status_of(answer.error)
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


def one_key(sent: Sequence[str], given: Any) -> str | None:
    """The idempotency key of a call, sent in headers or given beside its input; all of them must agree."""
    if not isinstance(given, str | None):
        raise InvalidInput("An idempotency key is text, or left out", field="idempotencyKey")
    keys = [key.strip(" \t") for key in sent] + ([] if given is None else [given])
    if any(key != keys[0] for key in keys):
        raise InvalidInput("Send one idempotency key, in the header or beside the input", field="idempotencyKey")
    return keys[0] if keys else None


def _around(headers: Headers, body: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """What stands around a call: as whom it claims to be made, and its idempotency key."""
    unknown = sorted(set(body) - _FIELDS)
    if unknown:
        raise InvalidInput(f"Unknown field '{unknown[0][:64]}'; allowed: {', '.join(sorted(_FIELDS))}")
    claim = body.get("agentId")
    if not isinstance(claim, str | None) or claim == "":
        raise InvalidInput("agentId is text, or left out")
    return claim, one_key(headers.getlist("idempotency-key"), body.get("idempotencyKey"))


def _refused(toolset: Toolset, error: ShopfloorError) -> Answer:
    call = Call(toolset, "", {}, Credential(), "execute", finished=now(), fault=error)
    return Answer(toolset.refuse(error, call), call, error)
