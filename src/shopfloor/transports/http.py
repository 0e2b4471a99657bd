"""HTTP: every route of a floor, behind one gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from shopfloor.app import LOADING, Floor, now
from shopfloor.chat import routes as chat
from shopfloor.errors import InvalidInput, NotFound, ShopfloorError, Unauthenticated
from shopfloor.toolkit import Credential, refusal
from shopfloor.transports.auth import METADATA, authenticate, challenge, metadata
from shopfloor.transports.execute import Execute, retry_after, status_of
from shopfloor.transports.gate import Gate
from shopfloor.transports.openapi import description
from shopfloor.web.desk import Desk
from shopfloor.web.routes import Pages

if TYPE_CHECKING:
    from shopfloor.transports.mcp import Endpoint

_SOON = 0.5


def application(floor: Floor) -> ASGIApp:
    """The whole HTTP surface of the floor."""
    doors = Doors(floor)
    rooms = Rooms(floor)
    routes = [
        Route("/healthz", doors.healthz),
        Route("/readyz", doors.readyz),
        Route("/metrics", doors.metrics),
        Route("/openapi.json", doors.openapi),
        Route("/mcp/execute", Execute(floor)),
        *rooms.routes(),
    ]
    pages = Pages(floor)
    desk = Desk(floor, pages)
    routes += [*chat.routes(floor, doors.proven(pages)), *pages.routes(), *desk.routes()]
    if floor.settings.issuer:
        routes += [Route(METADATA, doors.protected_resource), Route(f"{METADATA}/mcp", doors.protected_resource)]

    return Gate(
        Starlette(
            routes=routes,
            lifespan=rooms.open,
            exception_handlers={ShopfloorError: doors.refused, HTTPException: doors.missed},
        ),
        floor.settings,
        lambda path: pages.is_form(path) or desk.is_form(path),
    )


class Rooms:
    """The MCP endpoints: /mcp for the profile, and an address for each toolset that can be served.

    They are made when somebody asks for them, or a little after the start: loading the SDK takes as long as all the
    rest, and a floor is ready without it.
    """

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        served = [toolset for toolset in floor.toolsets.values() if toolset.served]
        self._toolsets = {"/mcp": floor.profile} | {f"/mcp/{toolset.name}": [toolset] for toolset in served}
        self._asked: asyncio.Event
        self._made: asyncio.Future[dict[str, Endpoint]]

    def routes(self) -> list[Route]:
        return [Route(path, _Room(self, path)) for path in self._toolsets]

    @asynccontextmanager
    async def open(self, _: Starlette) -> AsyncIterator[None]:
        """For as long as requests are served."""
        self._made = asyncio.get_running_loop().create_future()
        self._asked, closing = asyncio.Event(), asyncio.Event()
        holding = asyncio.create_task(self._hold(closing))
        try:
            yield
        finally:
            closing.set()
            self._asked.set()
            await holding

    async def endpoint(self, path: str) -> Endpoint:
        self._asked.set()
        return (await asyncio.shield(self._made))[path]

    async def _hold(self, closing: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_SOON):
                await self._asked.wait()
        if closing.is_set():
            return
        making = asyncio.ensure_future(asyncio.to_thread(self._make))
        await asyncio.wait((making,))
        if (failure := making.exception()) is not None:
            self._made.set_exception(failure)  # whoever asks is told; nobody waits for what will not come
            return
        endpoints = making.result()
        async with AsyncExitStack() as stack:
            for endpoint in endpoints.values():
                await stack.enter_async_context(endpoint.running())
            self._made.set_result(endpoints)
            await closing.wait()

    def _make(self) -> dict[str, Endpoint]:
        with LOADING:
            from shopfloor.transports import mcp  # noqa: PLC0415 - see above

        floor = self._floor
        return {path: mcp.Endpoint(floor, mcp.server(floor, room, "mcp")) for path, room in self._toolsets.items()}


class _Room:
    """One of them, as an ASGI application."""

    def __init__(self, rooms: Rooms, path: str) -> None:
        self._rooms = rooms
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self._rooms.endpoint(self._path))(scope, receive, send)


class Doors:
    """The small routes around the calls."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor

    async def healthz(self, _: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def readyz(self, _: Request) -> Response:
        missing = await run_in_threadpool(self._floor.ready)
        return JSONResponse({"status": "waiting" if missing else "ready", "missing": missing}, 503 if missing else 200)

    async def metrics(self, request: Request) -> Response:
        try:
            await authenticate(self._floor, request.headers)
        except Unauthenticated as error:
            return self._unauthenticated(error, request)
        return Response(await run_in_threadpool(self._floor.metrics.page), media_type="text/plain; version=0.0.4")

    async def openapi(self, _: Request) -> Response:
        return JSONResponse(description(self._floor))

    async def protected_resource(self, request: Request) -> Response:
        return JSONResponse(metadata(self._floor, str(request.base_url)))

    def proven(self, pages: Pages) -> Callable[[Request], Awaitable[Credential]]:
        """Who sends a request: the bearer of a token, or whoever signed in on a page."""

        async def proven(request: Request) -> Credential:
            if "authorization" in request.headers:
                return await authenticate(self._floor, request.headers)
            return await pages.proven(request)

        return proven

    async def refused(self, request: Request, error: Exception) -> Response:
        """A refusal that a route did not shape itself, as /mcp/execute shapes it."""
        assert isinstance(error, ShopfloorError)
        if isinstance(error, Unauthenticated):
            return self._unauthenticated(error, request)
        return JSONResponse(_untimed(error), status_of(error), retry_after(error))

    async def missed(self, request: Request, error: Exception) -> Response:
        """A place that there is not, or that is used in another way, in the same shape."""
        assert isinstance(error, HTTPException)
        here = request.url.path[:100]
        told: ShopfloorError = NotFound(f"There is nothing at {here}", hint="What is served: /openapi.json")
        if error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            told = InvalidInput(f"{request.method} does nothing at {here}", hint=f"Use {allowed}")
        return JSONResponse(refusal(told, told.message, now()), error.status_code, error.headers)

    def _unauthenticated(self, error: Unauthenticated, request: Request) -> Response:
        sent: Headers = request.headers
        return JSONResponse(_untimed(error), 401, challenge(self._floor, str(request.base_url), sent))


def _untimed(error: ShopfloorError) -> dict[str, object]:
    """A refusal that is the same, byte for byte, whenever and to whomever it is said."""
    details = {"hint": error.hint} if error.hint else {}
    return {"success": False, "error": {"code": error.code, "message": error.message, "details": details}}
