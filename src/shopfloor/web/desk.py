"""The routes of the desk. Pages read and write through calls, made as the signed-in visitor."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Match, Route

from shopfloor.connect import clients
from shopfloor.engine import Engine
from shopfloor.errors import InvalidInput, NotFound, PermissionDenied, ShopfloorError, TooBusy, Unauthenticated
from shopfloor.toolkit import CallResult, Json, Tool
from shopfloor.web import saved_filters
from shopfloor.web.responses import HEADERS, safe_redirect_path, status_of
from shopfloor.web.routes import MAX_STREAMS, Pages
from shopfloor.web.stream import LiveStreams
from shopfloor.web.views import MOVED, VIEWS
from shopfloor.web.views.activity import parse_log_filters
from shopfloor.web.views.search import find_things
from shopfloor.web.views.tasks import check_list_owner
from shopfloor.web.views.view import View, parse_number
from shopfloor.web.visitor import Visitor

GRANT_COMMAND = "shopfloor desk NAME viewer"
EXPORT_PAGE_ROWS = 200

Handler = Callable[[Request], Awaitable[Response]]
VisitorHandler = Callable[[Request, Visitor], Awaitable[Response]]


class _BoardKind(Convertor[str]):
    """The kind of a board in a path. The store calls a run's board `loop`."""

    regex = "epic|run"

    def convert(self, value: str) -> str:
        return "loop" if value == "run" else value

    def to_string(self, value: str) -> str:
        return "run" if value == "loop" else value


register_url_convertor("board", _BoardKind())


class Desk:
    """The pages for the operator and for users with a desk role."""

    def __init__(self, engine: Engine, pages: Pages) -> None:
        self._engine = engine
        self._pages = pages
        self._streams = LiveStreams(engine)
        # Only used to find the view that a live stream asks for; `routes` serves them.
        self._views = [(Route(view.path, self._serve_view(view)), view) for view in VIEWS]

    def routes(self) -> list[Route]:
        return [
            Route("/", self._guard(self.redirect_home)),
            Route("/enter", self._pages.wrap(self.redeem_link)),
            Route("/live", self._guard(self.open_stream)),
            Route("/find", self._guard(self.find_things)),
            Route("/activity/export", self._guard(self.export_log)),
            Route("/act/{tool}", self._guard(self.call_tool), methods=["POST"]),
            Route("/filters", self._guard(self.change_filters), methods=["POST"]),
            Route("/lists/{user}/move", self._guard(self.move_list_task), methods=["POST"]),
            *(Route(view.path, self._guard(self._serve_view(view))) for view in VIEWS),
            *(Route(old, self._redirect_to(new)) for old, new in MOVED.items()),
        ]

    def accepts_form(self, path: str) -> bool:
        """Return whether forms may be sent to this path."""
        return path == "/filters" or path.startswith("/act/") or (path.startswith("/lists/") and path.endswith("/move"))

    def _guard(self, handle: VisitorHandler) -> Handler:
        """Wrap a handler for signed-in visitors; redirect others to the sign-in page, and render errors."""

        async def guard(request: Request) -> Response:
            try:
                visitor = await self._find_visitor(request)
            except Unauthenticated as error:
                if not _wants_html(request):
                    return JSONResponse({"error": error.message}, 401)
                if request.method == "POST":
                    # The page shows what was typed, so that it can be sent again after signing in elsewhere.
                    return await self._pages.render_problem(request, error)
                return RedirectResponse(f"/signin?next={quote(request.url.path)}", 303)
            try:
                return await handle(request, visitor)
            except ShopfloorError as error:
                hint = error.hint
                if isinstance(error, PermissionDenied) and not visitor.has_desk_access:
                    hint = f"Ask the operator for desk access: {GRANT_COMMAND}"
                if not _wants_html(request):
                    return JSONResponse({"error": error.message, "hint": hint}, status_of(error))
                return await self._pages.render_problem(request, error, visitor.credential, hint)

        return self._pages.wrap(guard)

    async def render_not_found(self, request: Request) -> Response:
        """Render the page for an address that does not exist, in the visitor's frame if signed in."""
        error = NotFound(f"Page not found: {request.url.path[:100]}", hint="It may have been moved or deleted.")
        try:
            credential = (await self._find_visitor(request)).credential
        except Unauthenticated:
            credential = None

        async def render(request: Request) -> Response:
            return await self._pages.render_problem(request, error, credential)

        return await self._pages.wrap(render)(request)

    async def _find_visitor(self, request: Request) -> Visitor:
        return Visitor(self._engine, await self._pages.sessions.authenticate(request))

    def _redirect_to(self, path: str) -> Handler:
        """Return a handler that redirects an address of an earlier version, with its query."""

        async def redirect(request: Request) -> Response:
            parameters = {name: quote(str(value), safe="") for name, value in request.path_params.items()}
            query = f"?{request.url.query}" if request.url.query else ""
            return RedirectResponse(path.format(**parameters) + query, 308, HEADERS)

        return redirect

    async def redirect_home(self, _: Request, visitor: Visitor) -> Response:
        return RedirectResponse("/home" if visitor.has_desk_access else "/todo", 303)

    async def redeem_link(self, request: Request) -> Response:
        """Redeem a sign-in link.

        The response is a page that redirects: browsers send a SameSite=Strict cookie only with requests that a page of
        this site has started, and a link may have been opened from anywhere.
        """
        # Starlette passes HEAD to the handler of GET, and a HEAD request must not use up the link.
        if request.method != "GET":
            return Response(status_code=405)
        token = await self._pages.sessions.redeem_link(request.query_params.get("token", ""))
        response = await self._pages.render(request, "desk/signed_in.html", 200)
        self._pages.sessions.set_session_cookie(request, response, token)
        return response

    def _serve_view(self, view: View) -> VisitorHandler:
        async def serve(request: Request, visitor: Visitor) -> Response:
            if not visitor.has_desk_access:
                raise PermissionDenied("You have no desk access")
            given = {**dict(request.query_params), **{k: str(v) for k, v in request.path_params.items()}}
            data = await self._load(view, visitor, given)
            address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            saved = saved_filters.parse_filters(request.cookies.get(saved_filters.COOKIE))
            data |= {"fragment": False, "here": address, "saved_filters": saved}
            if view.topics and data.get("is_live", True):
                data["live"] = address
            return await self._pages.render(request, view.template, 200, visitor.credential, **data)

        return serve

    async def _load(self, view: View, visitor: Visitor, given: dict[str, str]) -> Json:
        return {"badge": None, **await view.load(visitor, given), "may": visitor.may, "visitor": visitor}

    async def open_stream(self, request: Request, visitor: Visitor) -> Response:
        """Stream a page: send its live part whenever it has changed."""
        address = request.query_params.get("page", "")
        try:
            parts = urlsplit(address)
            given = dict(parse_qsl(parts.query, max_num_fields=50))
        except ValueError:
            raise NotFound("Page not found") from None
        scope = {"type": "http", "path": parts.path, "method": "GET", "root_path": ""}
        for route, view in self._views:
            match, found = route.matches(scope)
            if match is Match.FULL and view.topics:
                break
        else:
            raise NotFound("Page not found")
        given |= {name: str(value) for name, value in found["path_params"].items()}
        if self._streams.open >= MAX_STREAMS:
            raise TooBusy

        async def render() -> dict[str, str | None]:
            data = await self._load(view, visitor, given)
            # All viewers share the HTML, so it carries no form token: live.js inserts the page's own.
            data |= {"fragment": True, "csrf": "", "path": parts.path, "here": address}
            template = self._pages.templates.get_template(view.template)
            html = await asyncio.to_thread(template.render, **data)
            return {"html": html, "badge": None if data["badge"] is None else data["badge"] or "0"}

        async def check_access() -> None:
            if (await self._find_visitor(request)).principal != visitor.principal:
                raise Unauthenticated

        if not visitor.has_desk_access:
            raise PermissionDenied("You have no desk access")
        # Viewers with the same rights see the same page, so it is rendered once for all of them.
        key = f"{visitor.principal.key if view.personal else visitor.rights} {address}"
        events = self._streams.stream(key, view.topics, view.interval, render, check_access)
        # nginx would buffer events until its buffer is full.
        return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def find_things(self, request: Request, visitor: Visitor) -> Response:
        """Respond to the command palette."""
        return JSONResponse({"things": await find_things(visitor, request.query_params.get("q", ""))})

    async def export_log(self, request: Request, visitor: Visitor) -> Response:
        """Stream the filtered log as JSON lines, with one page of rows in memory at a time."""
        given = parse_log_filters(dict(request.query_params))
        # Read the first page before the response starts, so that an error still has its status.
        first = await visitor.ask("log_search", **given, full=True, limit=EXPORT_PAGE_ROWS)

        async def lines() -> AsyncIterator[str]:
            page = first
            while True:
                for call in page["calls"]:
                    yield json.dumps(call, ensure_ascii=False) + "\n"
                if "nextCursor" not in page:
                    return
                try:
                    if self._engine.stopping:
                        raise TooBusy("The server is shutting down")
                    # An export may take minutes, during which the visitor may have lost access to the log.
                    now = await self._find_visitor(request)
                    more = given | {"cursor": page["nextCursor"]}
                    page = await now.ask("log_search", **more, full=True, limit=EXPORT_PAGE_ROWS)
                except ShopfloorError as error:
                    # The status has already been sent, so the last line says that rows are missing.
                    yield json.dumps({"incomplete": error.message, "cursor": page["nextCursor"]}) + "\n"
                    return

        headers = {"Content-Disposition": 'attachment; filename="shopfloor-log.jsonl"'}
        return StreamingResponse(lines(), media_type="application/jsonl", headers=headers)

    async def call_tool(self, request: Request, visitor: Visitor) -> Response:
        """Call the desk tool named by the path, with the fields of a form."""
        form = await self._pages.read_form(request)
        name = request.path_params["tool"]
        tool = self._engine.toolsets["desk"].tools.get(name)
        if tool is None or tool.read_only:
            raise NotFound(f"Unknown action '{name[:40]}'")
        was_open = not self._pages.sessions.needs_credential()
        answer = await visitor.call(name, parse_form(tool, form))
        if was_open and tool.admin and answer.error is None:
            # The call may have issued the first credential, which closes the server to callers without one.
            return await self._keep_session(request, visitor, answer, form)
        return await self._render_answer(request, visitor, answer, form)

    async def change_filters(self, request: Request, _: Visitor) -> Response:
        """Save or remove a task filter in this browser. It changes how pages look, not the work, so it is neither a
        call nor logged."""
        form = await self._pages.read_form(request)
        before = saved_filters.parse_filters(request.cookies.get(saved_filters.COOKIE))
        save = saved_filters.clean_filter(form.get("save", ""))
        texts = saved_filters.change_filters(before, save=save, remove=form.get("remove", ""))
        back = safe_redirect_path(form.get("back"))
        response = RedirectResponse(saved_filters.set_filter(back, save) if save else back, 303)
        value = saved_filters.format_filters(texts)
        age = saved_filters.MAX_AGE_SECONDS if texts else 0
        self._pages.sessions.set_cookie(request, response, saved_filters.COOKIE, value, age)
        return response

    async def move_list_task(self, request: Request, visitor: Visitor) -> Response:
        """Move a task of a user's list, as its owner or as the operator on the owner's behalf."""
        form = await self._pages.read_form(request)
        owner = check_list_owner(visitor, request.path_params["user"])
        tool = {"COMPLETED": "complete", "PENDING": "reopen"}.get(form.get("state", ""))
        if tool is None:
            raise InvalidInput("state must be PENDING or COMPLETED", field="state")
        given = {"taskId": _parse_integer("number", form.get("number", ""))}
        answer = await visitor.call(tool, given, toolset="personal", claim=owner)
        return await self._render_answer(request, visitor, answer, form)

    async def _keep_session(
        self, request: Request, visitor: Visitor, answer: CallResult, form: dict[str, str]
    ) -> Response:
        """Render the response for the operator of an open server, and sign this browser in if the server is now
        closed."""
        if not self._pages.sessions.needs_credential():
            return await self._render_answer(request, visitor, answer, form)
        token = await self._pages.sessions.open_operator_session()
        # The forms of the page being rendered belong to the new session.
        request.cookies[self._pages.sessions.session_cookie] = token
        response = await self._render_answer(request, visitor, answer, form, closed_now=True)
        self._pages.sessions.set_session_cookie(request, response, token)
        return response

    async def _render_answer(
        self, request: Request, visitor: Visitor, answer: CallResult, form: dict[str, str], *, closed_now: bool = False
    ) -> Response:
        """Return the response to a script as is; redirect a form to the page it came from, or show its new token."""
        if not _wants_html(request):
            has_body = answer.error is None or "error" in answer.body
            return JSONResponse(answer.body if has_body else {}, status_of(answer.error))
        if answer.error is not None:
            raise answer.error
        back = safe_redirect_path(form.get("back"))
        # A token is shown once. After a redirect it would be lost, or end up in the address.
        if "token" in answer.body:
            token = answer.body["token"]
            # The tools that issue a token name its owner in one of these arguments.
            owner = form.get("agent") or form.get("user") or form.get("name", "")
            commands = clients.list_commands(f"{str(request.base_url).rstrip('/')}/mcp", token)
            data: Json = {"token": token, "commands": commands, "back": back, "owner": owner}
            data |= {"closed_now": closed_now, "fragment": False}
            return await self._pages.render(request, "desk/token.html", 200, visitor.credential, **data)
        return RedirectResponse(back, 303)


def _wants_html(request: Request) -> bool:
    return "application/json" not in request.headers.get("accept", "") and request.url.path != "/live"


def parse_form(tool: Tool, form: dict[str, str]) -> Json:
    """Convert the fields of a form to the types of the tool's schema; leave out empty ones that cannot mean empty."""
    given: Json = {}
    for name, schema in tool.schema["properties"].items():
        text = form.get(name)
        if text is None:
            continue
        may_be_empty = schema.get("type") == "string" and "enum" not in schema and not schema.get("minLength")
        if not text.strip() and not may_be_empty:
            continue
        match schema.get("type"):
            case "integer":
                given[name] = _parse_integer(name, text)
            case "boolean":
                given[name] = text in ("true", "on", "1")
            case "array":
                given[name] = [_parse_integer(name, part) for part in text.replace(",", " ").split()]
            case _:
                given[name] = text.replace("\r\n", "\n")
    return given


def _parse_integer(name: str, text: str) -> int:
    """Return the number in a field; tasks may be written as `task-15`."""
    number = parse_number(text.strip().removeprefix("task-"))
    if number is None:
        raise InvalidInput(f"'{name}' must be a number, not '{text.strip()[:40]}'", field=name)
    return number
