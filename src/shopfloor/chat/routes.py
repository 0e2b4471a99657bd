"""The chat over HTTP: one answer as JSON, or the same as a stream of events; and the conversations kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from shopfloor.app import Floor
from shopfloor.chat.assistant import Assistant, Turn, called, check
from shopfloor.errors import InvalidInput
from shopfloor.toolkit import Credential, Json

Proven = Callable[[Request], Awaitable[Credential]]

_FIELDS = {"message", "conversationId"}
_ALIVE_EVERY = 15.0


def routes(floor: Floor, proven: Proven) -> list[Route]:
    """The routes of the chat; `proven` says who sends a request, or raises."""
    chat = Chat(floor, proven)
    return [
        Route("/api/chat", chat.say, methods=["POST"]),
        Route("/api/conversations", chat.conversations, methods=["GET"]),
        Route("/api/conversations/{id}", chat.conversation, methods=["GET", "DELETE"]),
    ]


class Chat:
    """The endpoints."""

    def __init__(self, floor: Floor, proven: Proven) -> None:
        self._floor = floor
        self._proven = proven
        self._assistant = Assistant(floor)

    async def say(self, request: Request) -> Response:
        credential = await self._proven(request)
        given = _said(await request.body())
        streamed = "text/event-stream" in request.headers.get("accept", "")
        if (off := self._assistant.switched_off()) is not None:
            answer: Json = {
                "conversationId": given.get("conversationId"),
                "response": off,
                "toolCalls": [],
                "error": "CHAT_OFF",
            }
            return _stream(_once(answer)) if streamed else JSONResponse(answer)
        turn = await self._assistant.begin(credential, given.get("message"), given.get("conversationId"))
        if streamed:
            return _stream(self._events(turn))
        return JSONResponse(await asyncio.shield(self._assistant.take(turn)))

    async def conversations(self, request: Request) -> Response:
        given = {name: request.query_params[name] for name in ("cursor",) if name in request.query_params}
        return await self._answer(request, "show_conversations", given)

    async def conversation(self, request: Request) -> Response:
        tool = "forget_conversation" if request.method == "DELETE" else "read_conversation"
        return await self._answer(request, tool, {"conversationId": request.path_params["id"]})

    async def _answer(self, request: Request, tool: str, given: Json) -> Response:
        answer = await called(self._floor, await self._proven(request), "personal", tool, given)
        check(answer)
        return JSONResponse(answer.body)

    async def _events(self, turn: Turn) -> AsyncIterator[str]:
        """What happens in the turn, as it happens. Whoever stops listening does not stop the turn."""
        happened: asyncio.Queue[tuple[str, Json]] = asyncio.Queue()
        task = self._assistant.take(turn, lambda name, data: happened.put_nowait((name, data)))
        while not (task.done() and happened.empty()):
            try:
                name, data = await asyncio.wait_for(happened.get(), _ALIVE_EVERY)
            except TimeoutError:
                yield ": still here\n\n"
                continue
            yield _event(name, data)
            if name == "done":
                return


async def _once(answer: Json) -> AsyncIterator[str]:
    yield _event("done", answer)


def _stream(events: AsyncIterator[str]) -> Response:
    return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _event(name: str, data: Json) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def _said(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInput("The body is not valid JSON") from None
    if not isinstance(given, dict) or set(given) - _FIELDS or not isinstance(given.get("message"), str):
        raise InvalidInput("The body is an object with message and, to go on, conversationId")
    return given
