"""HTTP: every route of a server, behind one gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from shopfloor.chat import routes as chat
from shopfloor.chat.model import find_missing_setup
from shopfloor.engine import IMPORT_LOCK, Engine
from shopfloor.errors import InvalidInput, NotFound, ShopfloorError, Unauthenticated
from shopfloor.gateways.clock import now
from shopfloor.toolkit import Credential, error_envelope
from shopfloor.transports.auth import METADATA_PATH, authenticate, challenge_headers, resource_metadata
from shopfloor.transports.bodies import parse_json
from shopfloor.transports.execute import Execute, http_status, retry_after_header
from shopfloor.transports.gate import Gate
from shopfloor.transports.openapi import describe_api
from shopfloor.web.desk import Desk
from shopfloor.web.routes import Pages

if TYPE_CHECKING:
    from shopfloor.transports.mcp import Endpoint

# Importing the MCP SDK takes 0.45 s, as long as everything else at startup, and a server is ready without it. It is
# loaded on the first request, or this many seconds after the start.
PRELOAD_DELAY_SECONDS = 0.5


def build_app(engine: Engine) -> ASGIApp:
    """Build the ASGI application with all routes."""
    service = ServiceRoutes(engine)
    endpoints = McpEndpoints(engine)
    endpoint_routes = [Route("/mcp/execute", Execute(engine)), *endpoints.routes()]
    routes = [
        *endpoint_routes,
        Route("/healthz", service.healthz),
        Route("/readyz", service.readyz),
        Route("/metrics", service.metrics),
        Route("/openapi.json", service.openapi),
    ]
    pages = Pages(engine, find_missing_setup(engine.settings))
    desk = Desk(engine, pages)
    routes += chat.routes(engine, service.authenticate_request(pages), parse_json)
    routes += [*pages.routes(), *desk.routes()]
    if engine.settings.issuer:
        routes += [
            Route(METADATA_PATH, service.protected_resource),
            Route(f"{METADATA_PATH}/mcp", service.protected_resource),
        ]

    async def not_found(request: Request, error: Exception) -> Response:
        # A browser gets a page with a link back, a program an error envelope.
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return await desk.render_not_found(request)
        return await service.not_found(request, error)

    async def render_failure(request: Request, _: Exception) -> Response:
        # Starlette raises the error again once the response is sent, so that it is logged with its stack.
        error = ShopfloorError(hint="The log of the server says more. Try again, or go back.")
        if "text/html" in request.headers.get("accept", ""):
            return await pages.wrap(lambda request: pages.render_problem(request, error))(request)
        return await service.render_error(request, error)

    app = Starlette(
        routes=routes,
        lifespan=endpoints.open,
        exception_handlers={ShopfloorError: service.render_error, HTTPException: not_found, Exception: render_failure},
    )
    calls: dict[str, ASGIApp] = {route.path: route.app for route in endpoint_routes}
    return Gate(
        _route_calls(calls, app),
        engine.settings,
        lambda path: pages.accepts_form(path) or desk.accepts_form(path),
    )


def _route_calls(calls: Mapping[str, ASGIApp], app: ASGIApp) -> ASGIApp:
    """Return an application that routes calls to their endpoint and everything else to `app`."""

    # Starlette wraps each request in two middlewares and scans its routes: 5 % of a call. A call endpoint renders its
    # own errors. Starlette handles the methods that it does not support.
    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        is_call = scope["type"] == "http" and scope["method"] == "POST"
        await (calls.get(scope["path"], app) if is_call else app)(scope, receive, send)

    return route


class McpEndpoints:
    """The MCP endpoints: /mcp for the profile, and an address for each toolset that can be served."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        served = [toolset for toolset in engine.toolsets.values() if toolset.served]
        self._toolsets = {"/mcp": engine.profile} | {f"/mcp/{toolset.name}": [toolset] for toolset in served}
        self._requested: asyncio.Event
        self._loaded: asyncio.Future[dict[str, Endpoint]]

    def routes(self) -> list[Route]:
        return [Route(path, _LazyEndpoint(self, path)) for path in self._toolsets]

    @asynccontextmanager
    async def open(self, _: Starlette) -> AsyncIterator[None]:
        """Run the endpoints while requests are served."""
        self._loaded = asyncio.get_running_loop().create_future()
        self._requested, closing = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(self._run(closing))
        try:
            yield
        finally:
            closing.set()
            self._requested.set()
            await running

    async def endpoint(self, path: str) -> Endpoint:
        if self._loaded.done():
            return self._loaded.result()[path]
        self._requested.set()
        # All requests wait for the same future: a cancelled request must not cancel it for the others.
        return (await asyncio.shield(self._loaded))[path]

    async def _run(self, closing: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(PRELOAD_DELAY_SECONDS):
                await self._requested.wait()
        if closing.is_set():
            return
        # On a thread: the import would block the event loop, and with it every other request.
        loading = asyncio.ensure_future(asyncio.to_thread(self._load))
        await asyncio.wait((loading,))
        if (failure := loading.exception()) is not None:
            # Each request then fails with it. Without this, every client of the server waited forever.
            self._loaded.set_exception(failure)
            return
        endpoints = loading.result()
        async with AsyncExitStack() as stack:
            for endpoint in endpoints.values():
                await stack.enter_async_context(endpoint.running())
            self._loaded.set_result(endpoints)
            await closing.wait()

    def _load(self) -> dict[str, Endpoint]:
        # The chat loads the same SDK on another thread, and each could find the half-loaded module of the other.
        with IMPORT_LOCK:
            from shopfloor.transports import mcp, mcp_server  # noqa: PLC0415 - see PRELOAD_DELAY_SECONDS

        engine = self._engine
        return {
            path: mcp.Endpoint(engine, mcp_server.build_server(engine, toolsets, "mcp"))
            for path, toolsets in self._toolsets.items()
        }


class _LazyEndpoint:
    """An ASGI application that waits for its endpoint."""

    def __init__(self, endpoints: McpEndpoints, path: str) -> None:
        self._endpoints = endpoints
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self._endpoints.endpoint(self._path))(scope, receive, send)


class ServiceRoutes:
    """Health, readiness, metrics, OpenAPI and error rendering."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def healthz(self, _: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def readyz(self, _: Request) -> Response:
        missing = await run_in_threadpool(self._engine.list_unready)
        return JSONResponse({"status": "waiting" if missing else "ready", "missing": missing}, 503 if missing else 200)

    async def metrics(self, request: Request) -> Response:
        try:
            await authenticate(self._engine, request.scope)
        except Unauthenticated as error:
            return self._reject_unauthenticated(error, request)
        return Response(
            await run_in_threadpool(self._engine.telemetry.metrics.render), media_type="text/plain; version=0.0.4"
        )

    async def openapi(self, _: Request) -> Response:
        return JSONResponse(describe_api(self._engine))

    async def protected_resource(self, request: Request) -> Response:
        return JSONResponse(resource_metadata(self._engine, request.scope))

    def authenticate_request(self, pages: Pages) -> Callable[[Request], Awaitable[Credential]]:
        """Return a function that accepts a bearer token or a page session."""

        async def authenticate_any(request: Request) -> Credential:
            # A bearer token takes precedence over the cookie: its caller is a program, which has no form token.
            if "authorization" in request.headers:
                return await authenticate(self._engine, request.scope)
            return await pages.authenticate(request)

        return authenticate_any

    async def render_error(self, request: Request, error: Exception) -> Response:
        """Render an error that a route did not render itself, in the same way as /mcp/execute."""
        assert isinstance(error, ShopfloorError)
        if isinstance(error, Unauthenticated):
            return self._reject_unauthenticated(error, request)
        return JSONResponse(_stable_error(error), http_status(error), retry_after_header(error))

    async def not_found(self, request: Request, error: Exception) -> Response:
        """Render 404 and 405 as error envelopes."""
        assert isinstance(error, HTTPException)
        here = request.url.path[:100]
        problem: ShopfloorError = NotFound(f"Not found: {here}", hint="/openapi.json lists what is served")
        if error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            problem = InvalidInput(f"Method {request.method} not allowed for {here}", hint=f"Use {allowed}")
        return JSONResponse(error_envelope(problem, problem.message, now()), error.status_code, error.headers)

    def _reject_unauthenticated(self, error: Unauthenticated, request: Request) -> Response:
        return JSONResponse(_stable_error(error), 401, challenge_headers(self._engine, request.scope))


def _stable_error(error: ShopfloorError) -> dict[str, object]:
    """Render an error without a timestamp, so that it is byte-identical for every caller."""
    details = {"hint": error.hint} if error.hint else {}
    return {"success": False, "error": {"code": error.code, "message": error.message, "details": details}}
