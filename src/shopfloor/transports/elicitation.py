"""Questions to the person at a client: as a request to the client, or as the result of its call.

Clients of the handshake revisions get `elicitation/create` over a connection that carries requests both ways, which is
stdio. Clients of the stateless revision get the question as the result of the call, and repeat the call with the answer.
Over HTTP, a client of a handshake revision has no session here, so its questions are in the inbox only.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import mcp_types as types
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic_core import ValidationError

from shopfloor.domain.times import SECOND
from shopfloor.engine import Engine
from shopfloor.toolkit import Elicitation, Json, Request, Tool

MAX_ANSWER_CHARACTERS = 60_000

_ANSWER, _OWN_WORDS = "answer", "ownWords"
_log = logging.getLogger("shopfloor.elicitation")


def has_forms(session: ServerSession) -> bool:
    """Return whether the client can show a form. `elicitation: {}` means forms; a client with only URLs says so."""
    capabilities = session.client_capabilities
    offered = None if capabilities is None else capabilities.elicitation
    return offered is not None and (offered.form is not None or offered.url is None)


def is_stateless(session: ServerSession) -> bool:
    """Return whether the client gets questions as results instead of requests."""
    return session.protocol_version in MODERN_PROTOCOL_VERSIONS


@dataclass(slots=True)
class ResultForm:
    """Keeps the question of a call for the call's result."""

    question: Elicitation | None = None

    def __call__(self, question: Elicitation) -> bool:
        self.question = question
        return True


class RequestForms:
    """Forms that clients show while calls wait, or afterwards: the call ends after a minute, the form does not."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # The event loop keeps no reference to a task.
        self._open: set[asyncio.Task[None]] = set()

    def show(self, session: ServerSession, request: Request, question: Elicitation) -> bool:
        """Show the question until it is answered, here or in the inbox, or until it lapses."""
        form = asyncio.create_task(self._show(session, request, question))
        self._open.add(form)
        form.add_done_callback(self._open.discard)
        return False

    async def _show(self, session: ServerSession, request: Request, question: Elicitation) -> None:
        topics = self._engine.topics
        seconds = (question.until - self._engine.database.clock()) / SECOND
        asking = asyncio.create_task(session.elicit_form(question.message, _build_schema(question)))
        # Closing the form too early is harmless: the question is in the inbox.
        closing = asyncio.create_task(topics.wait(question.topic, topics.checkpoint(), seconds))
        try:
            await asyncio.wait({asking, closing}, return_when=asyncio.FIRST_COMPLETED)
            answer = read_answer(asking.result()) if asking.done() else None
        except (MCPError, ValidationError) as error:
            _log.info("the client did not answer: %s", error)
            return
        finally:
            asking.cancel()  # the SDK then sends notifications/cancelled, and the client closes the form
            closing.cancel()
        if answer is not None:
            await self._engine.acall(continue_call(request, question.arguments, answer))


def continue_call(request: Request, arguments: Json, answer: str | None) -> Request:
    """Return the call that brings the answer. It is safe to retry, so it needs no idempotency key."""
    return replace(request, input=arguments, elicited=answer, elicit=None, idempotency_key=None)


def to_input_required(question: Elicitation) -> types.InputRequiredResult:
    """Return the result that asks the client for the answer; its state holds the arguments of the follow-up call."""
    params = types.ElicitRequestFormParams(message=question.message, requested_schema=_build_schema(question))
    return types.InputRequiredResult(
        input_requests={_ANSWER: types.ElicitRequest(params=params)}, request_state=json.dumps(question.arguments)
    )


def read_state(tool: Tool | None, state: str) -> Json:
    """Return the arguments in the state. The client may have changed them, so they are checked like any arguments."""
    try:
        arguments = json.loads(state) if tool is not None and tool.elicits else None
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise MCPError(code=types.INVALID_PARAMS, message="requestState is not from this server")
    return arguments


def read_responses(responses: Mapping[str, Any] | None) -> str | None:
    """Return the answer among the responses of a client, or None."""
    response = (responses or {}).get(_ANSWER)
    return read_answer(response) if isinstance(response, types.ElicitResult) else None


def read_answer(result: types.ElicitResult) -> str | None:
    """Return the answer, preferring free text; None if the person declined or it cannot be stored."""
    content = result.content or {}
    if result.action != "accept":
        return None
    for name in (_OWN_WORDS, _ANSWER):
        text = content.get(name)
        if isinstance(text, str) and text.strip():
            is_storable = len(text) <= MAX_ANSWER_CHARACTERS and "\0" not in text and _is_unicode(text)
            return text.strip() if is_storable else None
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _build_schema(question: Elicitation) -> types.ElicitRequestedSchema:
    own = {"type": "string", "maxLength": MAX_ANSWER_CHARACTERS}
    if not question.options:
        return {
            "type": "object",
            "properties": {_ANSWER: {**own, "title": "Answer", "minLength": 1}},
            "required": [_ANSWER],
        }
    return {
        "type": "object",
        "properties": {
            _ANSWER: {"type": "string", "title": "Answer", "enum": list(question.options)},
            _OWN_WORDS: {**own, "title": "Or in your own words"},
        },
    }
