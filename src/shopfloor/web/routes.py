"""The pages of every user: sign-in, todo list and chat, and the code shared by all pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from shopfloor import access
from shopfloor.domain.todos import todo_topic
from shopfloor.engine import Engine
from shopfloor.errors import InvalidInput, RateLimited, ShopfloorError, TooBusy, Unauthenticated
from shopfloor.toolkit import CallResult, Credential, Json
from shopfloor.web.assets import Assets
from shopfloor.web.filters import create_environment
from shopfloor.web.responses import HEADERS, safe_redirect_path, status_of
from shopfloor.web.sessions import FORM_FIELD, FORM_HEADER, PageSessions
from shopfloor.web.visitor import OPERATOR, Visitor

FILTERS = ("active", "all", "completed")
MAX_STREAMS = 1000
MAX_FORM_FIELDS = 50
# The form field that lists the fields that its visitor could not edit.
FIXED_FIELDS = "fixed"
# How long a stream may go without checking that its visitor is still signed in.
SESSION_CHECK_SECONDS = 20.0

_SAFE_METHODS = frozenset({"GET", "HEAD"})
_SCRIPT_PATHS = frozenset({"/todo/list", "/todo/events"})

# The tools that a form on the todo page may call, and the fields that it may pass.
_ACTION_FIELDS = {
    "add": ("title", "description", "priority", "dueAt", "dueZone"),
    "change": ("taskId", "title", "description", "priority", "dueAt", "dueZone"),
    "complete": ("taskId",),
    "reopen": ("taskId",),
    "delete": ("taskId",),
    "restore": ("taskId",),
}

Handler = Callable[[Request], Awaitable[Response]]
CredentialHandler = Callable[[Request, Credential], Awaitable[Response]]


class Pages:
    """The pages of every user."""

    def __init__(self, engine: Engine, missing_chat_setup: str | None = None) -> None:
        self._engine = engine
        self._missing_chat_setup = missing_chat_setup
        self.sessions = PageSessions(engine)
        self._assets = Assets(Path(__file__).parent / "static")
        self._open_streams = 0
        self.templates = create_environment(self._assets.url)

    def routes(self) -> list[Route]:
        return [
            Route("/signin", self.wrap(self.sign_in), methods=["GET", "POST"]),
            Route("/signout", self.wrap(self.sign_out), methods=["POST"]),
            Route("/todo", self._require_sign_in(self.serve_todo), methods=["GET", "POST"]),
            Route("/todo/list", self._require_sign_in(self.serve_list)),
            Route("/todo/events", self._require_sign_in(self.open_stream)),
            Route("/chat", self._require_sign_in(self.serve_chat)),
            Route("/static/{name}", self._assets.serve),
        ]

    def accepts_form(self, path: str) -> bool:
        """Return whether forms may be sent to this path."""
        return path in ("/signin", "/signout", "/todo")

    async def authenticate(self, request: Request) -> Credential:
        """Return who sent a request from a page's script; a request that changes something needs a form token."""
        # Only a cookie is sent by the browser itself. Without one, another site has nothing to misuse.
        if request.method not in _SAFE_METHODS and self.sessions.session_cookie in request.cookies:
            self.sessions.check_form_token(request, request.headers.get(FORM_HEADER))
        return await self.sessions.authenticate(request)

    def _require_sign_in(self, handle: CredentialHandler) -> Handler:
        """Wrap a handler for signed-in users; redirect others to the sign-in page."""

        async def require_sign_in(request: Request) -> Response:
            try:
                credential = await self.sessions.authenticate(request)
            except Unauthenticated as error:
                # A script would follow the redirect and take the sign-in page for its response.
                if request.url.path in _SCRIPT_PATHS or _wants_json(request):
                    return Response("Sign in first", 401, HEADERS)
                if request.method == "POST":
                    # The page shows what was typed, so that it can be sent again after signing in elsewhere.
                    return await self.render_problem(request, error)
                return RedirectResponse(f"/signin?next={quote(request.url.path)}", 303, HEADERS)
            return await handle(request, credential)

        return self.wrap(require_sign_in)

    def wrap(self, handle: Handler) -> Handler:
        """Wrap a handler with the common parts of every page: rendered errors, security headers, the visitor cookie."""

        async def serve(request: Request) -> Response:
            response: Response
            try:
                response = await handle(request)
            except ShopfloorError as error:
                if _wants_json(request):
                    response = JSONResponse({"error": error.message, "hint": error.hint}, status_of(error))
                else:
                    response = await self.render_problem(request, error)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            return self.sessions.set_visitor_cookie(request, response)

        return serve

    async def sign_in(self, request: Request) -> Response:
        if self._engine.settings.issuer:
            return await self.render(request, "signin.html", 200, next="/", name="", problem=None, closed=True)
        if request.method == "GET":
            after = safe_redirect_path(request.query_params.get("next"), "/")
            return await self.render(request, "signin.html", 200, next=after, name="", problem=None, closed=False)
        form = await self.read_form(request)
        name, after = form.get("name", ""), safe_redirect_path(form.get("next"), "/")
        address = request.client.host if request.client else ""
        try:
            token = await self.sessions.sign_in(name, form.get("password", ""), address)
        except (Unauthenticated, RateLimited) as error:
            status = status_of(error)
            response = await self.render(
                request, "signin.html", status, next=after, name=name, problem=error.message, closed=False
            )
            if isinstance(error, RateLimited):
                response.headers["Retry-After"] = str(error.facts["seconds"])
            return response
        response = RedirectResponse(after, 303)
        self.sessions.set_session_cookie(request, response, token)
        return response

    async def sign_out(self, request: Request) -> Response:
        await self.read_form(request)
        if token := request.cookies.get(self.sessions.session_cookie):
            await self.sessions.end(token)
        response = RedirectResponse("/signin", 303)
        self.sessions.clear_session_cookie(request, response)
        return response

    async def serve_todo(self, request: Request, credential: Credential) -> Response:
        if request.method == "POST":
            return await self._change_list(request, credential)
        return await self.render(request, "todo.html", 200, credential, **await self._load_list(request, credential))

    async def _change_list(self, request: Request, credential: Credential) -> Response:
        """Call the tool that a form of the todo page names."""
        form = await self.read_form(request)
        action = form.get("action", "")
        if action not in _ACTION_FIELDS:
            raise InvalidInput(f"Unknown action '{action[:40]}'; expected one of {', '.join(_ACTION_FIELDS)}")
        given: Json = {name: form[name] for name in _ACTION_FIELDS[action] if name in form}
        # A form has only text. Text that is not a number stays as it is: the tool rejects it with its own error.
        for name in ("taskId", "priority"):
            if name in given and given[name].isascii() and given[name].isdigit():
                given[name] = int(given[name])
        if not given.get("dueAt"):
            given.pop("dueZone", None)
        answer = await self._call(credential, action, given)
        if _wants_json(request):
            return JSONResponse({"success": True} if answer.error is None else answer.body, status_of(answer.error))
        if answer.error is not None:
            return await self.render_problem(request, answer.error, credential, message=answer.body["error"])
        return RedirectResponse(f"/todo?filter={_parse_filter(form.get('filter'))}", 303)

    async def serve_list(self, request: Request, credential: Credential) -> Response:
        return await self.render(request, "list.html", 200, credential, **await self._load_list(request, credential))

    async def serve_chat(self, request: Request, credential: Credential) -> Response:
        data = await self._load_list(request, credential)
        return await self.render(request, "chat.html", 200, credential, off=self._missing_chat_setup, **data)

    async def open_stream(self, request: Request, credential: Credential) -> Response:
        """Stream an event whenever the user's list changes; the page then fetches the list again."""
        if self._open_streams >= MAX_STREAMS:
            raise TooBusy
        return StreamingResponse(self._stream_changes(request, credential), media_type="text/event-stream")

    async def _stream_changes(self, request: Request, credential: Credential) -> AsyncIterator[str]:
        topic = todo_topic(self._user_name(credential))
        self._open_streams += 1
        try:
            yield "event: ready\ndata: {}\n\n"
            while not self._engine.stopping:
                # Taken before the page is notified: a change while it fetches the list ends the wait immediately.
                checkpoint = self._engine.topics.checkpoint()
                yield "event: changed\ndata: {}\n\n"
                await self._engine.topics.wait(topic, checkpoint, SESSION_CHECK_SECONDS)
                await self.sessions.authenticate(request)
        except Unauthenticated:
            yield "event: signed-out\ndata: {}\n\n"
        finally:
            self._open_streams -= 1

    async def _load_list(self, request: Request, credential: Credential) -> Json:
        """Load the user's list: one page of tasks, and the deleted tasks that can be restored."""
        chosen = _parse_filter(request.query_params.get("filter"))
        given = {"filter": chosen}
        if cursor := request.query_params.get("cursor"):
            given["cursor"] = cursor
        page = await self._call(credential, "show_list", given)
        deleted = await self._call(credential, "show_deleted", {})
        for answer in (page, deleted):
            if answer.error is not None:
                raise answer.error
        return {
            "tasks": page.body["tasks"],
            "count": page.body["count"],
            "cursor": page.body.get("nextCursor"),
            "deleted": deleted.body["tasks"],
            "filter": chosen,
            "filters": FILTERS,
        }

    async def _call(self, credential: Credential, tool: str, given: Json) -> CallResult:
        return await self._engine.acall(self._engine.new_request("personal", tool, given, credential, "web"))

    async def read_form(self, request: Request) -> dict[str, str]:
        """Return the fields of a form that one of our pages sent."""
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/x-www-form-urlencoded":
            raise InvalidInput("Content-Type must be application/x-www-form-urlencoded")
        form = _parse_fields(await request.body())
        if form is None:
            raise InvalidInput("The form is malformed")
        self.sessions.check_form_token(request, form.get(FORM_FIELD))
        return form

    async def render_problem(
        self,
        request: Request,
        error: ShopfloorError,
        credential: Credential | None = None,
        hint: str | None = None,
        message: str | None = None,
    ) -> Response:
        """Render an error, with a way back and everything that was typed into a form, so that it can be sent again."""
        form = (_parse_fields(await request.body()) or {}) if request.method == "POST" else {}
        fixed = {FORM_FIELD, FIXED_FIELDS, "back", *form.get(FIXED_FIELDS, "").split()}
        return await self.render(
            request,
            "problem.html",
            status_of(error),
            credential,
            title="Page not found" if request.method == "GET" and status_of(error) == 404 else "Something went wrong",
            message=message or error.message,
            hint=hint or error.hint,
            back=safe_redirect_path(form.get("back"), "/"),
            signed_out=isinstance(error, Unauthenticated),
            # A password is never sent back.
            typed={name: text for name, text in form.items() if name not in fixed and name != "password"},
            fixed={name: text for name, text in form.items() if name in fixed and name != FORM_FIELD},
        )

    async def render(
        self, request: Request, template: str, status: int, credential: Credential | None = None, **data: Any
    ) -> Response:
        """Render a template; `data` may replace the values that every page has."""
        # The templates use StrictUndefined, so every page passes every name.
        shared: Json = {
            "csrf": self.sessions.form_token(request),
            "path": request.url.path,
            "user": None,
            "signed_in": False,
            "desk": False,
            "live": None,
            "badge": None,
            "project": None,
        }
        if credential is not None:
            visitor = Visitor(self._engine, credential)
            shared["user"] = visitor.name if visitor.rights == OPERATOR else self._user_name(credential)
            shared["signed_in"] = self.sessions.session_cookie in request.cookies
            shared["desk"] = visitor.has_desk_access
            project = self._engine.settings.project
            shared["project"] = {"name": project.name, "path": str(project) if visitor.has_desk_access else ""}
            if visitor.has_desk_access and data.get("badge") is None:
                data["badge"] = await visitor.find_badge()
        return HTMLResponse(self.templates.get_template(template).render(**shared | data), status)

    def _user_name(self, credential: Credential) -> str:
        assert credential.trusted is not None
        return access.default_caller(self._engine.toolsets["personal"], credential.trusted).name


def _parse_fields(body: bytes) -> dict[str, str] | None:
    """Return the fields of a form, or None if it is malformed."""
    try:
        # An empty field may mean "remove it", so blank values are kept.
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS))
    except ValueError:
        return None


def _parse_filter(given: str | None) -> str:
    return given if given in FILTERS else FILTERS[0]


def _wants_json(request: Request) -> bool:
    """Return whether the request comes from a page's script, which shows the response itself."""
    return "application/json" in request.headers.get("accept", "")
