"""The routes of the pages. Whatever a page does is a call like any other, made as whoever signed in."""

from __future__ import annotations

import asyncio
import hashlib
import json
import mimetypes
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from shopfloor.app import Floor, topic_of
from shopfloor.errors import InvalidInput, RateLimited, ShopfloorError, TooBusy, Unauthenticated
from shopfloor.toolkit import Answer, Call, Credential, Json
from shopfloor.web.frame import OPERATOR, Visitor, local, status_of
from shopfloor.web.visits import FORM_FIELD, FORM_HEADER, Visits

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
FILTERS = ("active", "all", "completed")
STREAMS = 1000
_STATIC = Path(__file__).parent / "static"
_SAFE = frozenset({"GET", "HEAD"})
_LOOK_EVERY = 20.0

Page = Callable[[Request, Credential], Awaitable[Response]]

_ACTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "add": ("add", ("title", "description", "priority", "dueAt", "dueZone")),
    "change": ("change", ("taskId", "title", "description", "priority", "dueAt", "dueZone")),
    "complete": ("complete", ("taskId",)),
    "reopen": ("reopen", ("taskId",)),
    "delete": ("delete", ("taskId",)),
    "restore": ("restore", ("taskId",)),
}


class Pages:
    """Everything that people look at."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self.visits = Visits(floor)
        self._static = {file.name: _file(file) for file in sorted(_STATIC.iterdir())}
        self._streams = 0
        self.templates = Environment(
            loader=PackageLoader("shopfloor.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        self.templates.globals["static"] = lambda name: f"/static/{name}?v={self._static[name][2]}"

    def routes(self) -> list[Route]:
        return [
            Route("/signin", self.open(self._sign_in), methods=["GET", "POST"]),
            Route("/signout", self.open(self._sign_out), methods=["POST"]),
            Route("/todo", self._page(self._todo), methods=["GET", "POST"]),
            Route("/todo/list", self._page(self._list)),
            Route("/todo/events", self._page(self._events)),
            Route("/chat", self._page(self._chat)),
            Route("/static/{name}", self._file),
        ]

    def is_form(self, path: str) -> bool:
        """Which addresses take forms."""
        return path in ("/signin", "/signout", "/todo")

    async def proven(self, request: Request) -> Credential:
        """Who sends a request from a page; one that changes something must show that a page of ours sent it."""
        if request.method not in _SAFE and self.visits.session_cookie in request.cookies:
            self.visits.check(request, request.headers.get(FORM_HEADER))
        return await self.visits.credential(request)

    def _page(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        """A page for those who signed in; others are sent to do so first."""

        async def shown(request: Request) -> Response:
            try:
                credential = await self.visits.credential(request)
            except Unauthenticated:
                if request.url.path in ("/todo/list", "/todo/events") or _wants_fragment(request):
                    return Response("Sign in first", 401, HEADERS)
                return RedirectResponse(f"/signin?next={quote(request.url.path)}", 303, HEADERS)
            return await page(request, credential)

        return self.open(shown)

    def open(self, page: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """A page for everybody, with what every page carries."""

        async def shown(request: Request) -> Response:
            try:
                response = await page(request)
            except ShopfloorError as error:
                response = self.html(request, "problem.html", status_of(error), message=error.message, hint=error.hint)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            return self.visits.welcome(request, response)

        return shown

    async def _sign_in(self, request: Request) -> Response:
        if self._floor.settings.issuer:
            return self.html(request, "signin.html", 200, next="/", name="", problem=None, closed=True)
        if request.method == "GET":
            after = _local(request.query_params.get("next"))
            return self.html(request, "signin.html", 200, next=after, name="", problem=None, closed=False)
        form = await self.form(request)
        name, after = form.get("name", ""), _local(form.get("next"))
        address = request.client.host if request.client else ""
        try:
            token = await asyncio.to_thread(self._floor.sessions.sign_in, name, form.get("password", ""), address)
        except (Unauthenticated, RateLimited) as error:
            status = 429 if isinstance(error, RateLimited) else 401
            shown: Json = {"next": after, "name": name, "problem": error.message, "closed": False}
            response = self.html(request, "signin.html", status, **shown)
            if isinstance(error, RateLimited):
                response.headers["Retry-After"] = str(error.facts["seconds"])
            return response
        response = RedirectResponse(after, 303)
        self.visits.sign_in(request, response, token)
        return response

    async def _sign_out(self, request: Request) -> Response:
        await self.form(request)
        if token := request.cookies.get(self.visits.session_cookie):
            await asyncio.to_thread(self._floor.sessions.end, token)
        response = RedirectResponse("/signin", 303)
        self.visits.sign_out(request, response)
        return response

    async def _todo(self, request: Request, credential: Credential) -> Response:
        if request.method == "GET":
            return self.html(
                request, "todo.html", 200, credential, problem=None, **await self._shown(request, credential)
            )
        form = await self.form(request)
        answer = await self._act(credential, form)
        if _wants_fragment(request):
            body = {"success": True} if answer.error is None else answer.body
            return Response(
                json.dumps(body, ensure_ascii=False), status_of(answer.error), media_type="application/json"
            )
        if answer.error is None:
            return RedirectResponse(f"/todo?filter={_filter(form.get('filter'))}", 303)
        shown = await self._shown(request, credential)
        return self.html(
            request, "todo.html", status_of(answer.error), credential, problem=answer.body["error"], **shown
        )

    async def _act(self, credential: Credential, form: dict[str, str]) -> Answer:
        if form.get("action") not in _ACTIONS:
            raise InvalidInput("There is no such action")
        tool, fields = _ACTIONS[form["action"]]
        given: Json = {name: form[name] for name in fields if name in form}
        for name in ("taskId", "priority"):
            if name in given:
                given[name] = int(given[name]) if given[name].isascii() and given[name].isdigit() else given[name]
        if not given.get("dueAt"):
            given.pop("dueZone", None)
        return await self._call(credential, tool, given)

    async def _list(self, request: Request, credential: Credential) -> Response:
        return self.html(request, "list.html", 200, credential, **await self._shown(request, credential))

    async def _chat(self, request: Request, credential: Credential) -> Response:
        return self.html(request, "chat.html", 200, credential, **await self._shown(request, credential))

    async def _events(self, request: Request, credential: Credential) -> Response:
        """A line whenever the visitor's list changes; the page then looks at the list again."""
        if self._streams >= STREAMS:
            raise TooBusy
        return StreamingResponse(self._changes(request, credential), media_type="text/event-stream")

    async def _changes(self, request: Request, credential: Credential) -> AsyncIterator[str]:
        topic = topic_of(self._user(credential))
        self._streams += 1
        try:
            yield "event: ready\ndata: {}\n\n"
            while not self._floor.stopping:
                mark = self._floor.wake.mark()
                yield "event: changed\ndata: {}\n\n"
                await self._floor.wake.wait(topic, mark, _LOOK_EVERY)
                await self.visits.credential(request)
        except Unauthenticated:
            yield "event: signed-out\ndata: {}\n\n"
        finally:
            self._streams -= 1

    async def _shown(self, request: Request, credential: Credential) -> Json:
        """What the list on a page is made of."""
        wanted = _filter(request.query_params.get("filter"))
        given = {"filter": wanted}
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
            "filter": wanted,
            "filters": FILTERS,
        }

    async def _call(self, credential: Credential, tool: str, given: Json) -> Answer:
        return await self._floor.acall(Call(self._floor.toolsets["personal"], tool, given, credential, "web"))

    async def form(self, request: Request) -> dict[str, str]:
        """The fields of a form that one of our pages sent."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise InvalidInput("Send a form")
        try:
            form = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=50))
        except ValueError:
            raise InvalidInput("The form cannot be read") from None
        self.visits.check(request, form.get(FORM_FIELD))
        return form

    async def _file(self, request: Request) -> Response:
        found = self._static.get(request.path_params["name"])
        if found is None:
            return Response("Not found", 404)
        content, kind, version = found
        age = "public, max-age=31536000, immutable" if request.query_params.get("v") == version else "no-cache"
        headers = {"Cache-Control": age, "X-Content-Type-Options": "nosniff", "ETag": f'"{version}"'}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    def html(
        self, request: Request, template: str, status: int, credential: Credential | None = None, **shown: Any
    ) -> Response:
        known: Json = {
            "csrf": self.visits.form_token(request),
            "path": request.url.path,
            "user": None,
            "signed_in": False,
            "desk": False,
            "live": None,
            "badge": None,
        }
        if credential is not None:
            visitor = Visitor(self._floor, credential)
            user = visitor.name if visitor.rights == OPERATOR else self._user(credential)
            signed_in = self.visits.session_cookie in request.cookies
            known |= {"user": user, "signed_in": signed_in, "desk": visitor.at_the_desk}
        return HTMLResponse(self.templates.get_template(template).render(**known | shown), status)

    def _user(self, credential: Credential) -> str:
        assert credential.trusted is not None
        return self._floor.acting_as(self._floor.toolsets["personal"], credential.trusted).name


def _file(file: Path) -> tuple[bytes, str, str]:
    content = file.read_bytes()
    kind = {".js": "text/javascript"}.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "text/plain"
    return content, kind, hashlib.sha256(content).hexdigest()[:12]


def _filter(given: str | None) -> str:
    return given if given in FILTERS else FILTERS[0]


def _local(path: str | None) -> str:
    """Where to go after signing in: a page of ours, whatever the address says."""
    return local(path, "/")


def _wants_fragment(request: Request) -> bool:
    """Whether a script of a page asks, which shows the answer itself."""
    return "text/x-fragment" in request.headers.get("accept", "")
