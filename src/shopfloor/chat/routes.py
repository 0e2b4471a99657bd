"""The chat over HTTP: an answer as JSON or as a stream of events, and the stored conversations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from shopfloor.chat.assistant import Assistant, Turn, call_tool, raise_error
from shopfloor.engine import Engine
from shopfloor.errors import InvalidInput
from shopfloor.toolkit import Credential, Json

Authenticate = Callable[[Request], Awaitable[Credential]]
ParseJson = Callable[[bytes], Any]

_OPTIONAL_FIELDS = {"conversationId", "confirmationId"}
_FIELDS = {"message", *_OPTIONAL_FIELDS}
_KEEPALIVE_SECONDS = 15.0
_STREAM_HEADERS = {"Cache-Control": "no-store"}


def routes(engine: Engine, authenticate: Authenticate, parse_json: ParseJson) -> list[Route]:
    """Build the routes of the chat. `authenticate` returns the credential of a request, `parse_json` the value of a
    body, or both raise."""
    chat = Chat(engine, authenticate, parse_json)
    return [
        Route("/api/chat", chat.send_message, methods=["POST"]),
        Route("/api/conversations", chat.list_conversations, methods=["GET"]),
        Route("/api/conversations/{id}", chat.read_or_delete_conversation, methods=["GET", "DELETE"]),
    ]


class Chat:
    """The endpoints."""

    def __init__(self, engine: Engine, authenticate: Authenticate, parse_json: ParseJson) -> None:
        self._engine = engine
        self._authenticate = authenticate
        self._parse_json = parse_json
        self._assistant = Assistant(engine)

    async def send_message(self, request: Request) -> Response:
        """Answer a message of the user."""
        credential = await self._authenticate(request)
        given = self._parse_json(await request.body())
        if not isinstance(given, dict) or set(given) - _FIELDS or not isinstance(given.get("message"), str):
            raise InvalidInput(
                "The body must be an object with message, and optionally conversationId and confirmationId"
            )
        # The response repeats the id, also while the chat is off and no tool checks it.
        if not all(isinstance(given.get(name), str | None) for name in _OPTIONAL_FIELDS):
            raise InvalidInput("conversationId and confirmationId must be strings")
        streamed = "text/event-stream" in request.headers.get("accept", "")
        if (missing := self._assistant.find_missing_setup()) is not None:
            answer: Json = {
                "conversationId": given.get("conversationId"),
                "response": missing,
                "toolCalls": [],
                "error": "CHAT_OFF",
            }
            if streamed:
                return Response(_format_event("done", answer), media_type="text/event-stream", headers=_STREAM_HEADERS)
            return JSONResponse(answer)
        turn = await self._assistant.begin_turn(
            credential, given["message"], given.get("conversationId"), given.get("confirmationId")
        )
        if streamed:
            return StreamingResponse(self._events(turn), media_type="text/event-stream", headers=_STREAM_HEADERS)
        # If the client disconnects, this request is cancelled but not the turn: its message needs an answer.
        return JSONResponse(await asyncio.shield(self._assistant.start_turn(turn)))

    async def list_conversations(self, request: Request) -> Response:
        """List the user's conversations."""
        given = {name: request.query_params[name] for name in ("cursor",) if name in request.query_params}
        return await self._respond(request, "show_conversations", given)

    async def read_or_delete_conversation(self, request: Request) -> Response:
        """Read a conversation, or delete it."""
        tool = "forget_conversation" if request.method == "DELETE" else "read_conversation"
        return await self._respond(request, tool, {"conversationId": request.path_params["id"]})

    async def _respond(self, request: Request, tool: str, given: Json) -> Response:
        result = await call_tool(self._engine, await self._authenticate(request), "personal", tool, given)
        raise_error(result)
        return JSONResponse(result.body)

    async def _events(self, turn: Turn) -> AsyncIterator[str]:
        """Yield the events of the turn as they happen. The turn continues if the client disconnects."""
        events: asyncio.Queue[tuple[str, Json]] = asyncio.Queue()
        task = self._assistant.start_turn(turn, lambda name, data: events.put_nowait((name, data)))
        while not (task.done() and events.empty()):
            try:
                async with asyncio.timeout(_KEEPALIVE_SECONDS):
                    name, data = await events.get()
            except TimeoutError:
                # A comment, which clients ignore: proxies close idle connections.
                yield ": keep-alive\n\n"
                continue
            yield _format_event(name, data)
            if name == "done":
                return


def _format_event(name: str, data: Json) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
