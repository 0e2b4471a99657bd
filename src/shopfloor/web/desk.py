"""The routes of the desk. What a page shows and does are calls like any other, made as whoever looks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Match, Route

from shopfloor.app import Floor, enter
from shopfloor.errors import InvalidInput, NotFound, PermissionDenied, ShopfloorError, TooBusy, Unauthenticated
from shopfloor.toolkit import Answer, Json, Tool
from shopfloor.web.frame import Visitor, dress, local, status_of
from shopfloor.web.routes import Pages
from shopfloor.web.stream import Streams
from shopfloor.web.views import VIEWS, View, badge, list_of, log_input

STREAMS = 1000
SEAT = "shopfloor desk NAME reader"

Serve = Callable[[Request, Visitor], Awaitable[Response]]


class _Kind(Convertor[str]):
    regex = "epic|loop"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("kind", _Kind())


class Desk:
    """The pages for the people in charge."""

    def __init__(self, floor: Floor, pages: Pages) -> None:
        self._floor = floor
        self._pages = pages
        self._streams = Streams(floor)
        self._views = [(Route(view.path, self._serve), view) for view in VIEWS]
        dress(pages.templates)

    def routes(self) -> list[Route]:
        return [
            Route("/", self._pages.open(self._guarded(self._home))),
            Route("/enter", self._pages.open(self._enter)),
            Route("/live", self._pages.open(self._guarded(self._live))),
            Route("/log/export", self._pages.open(self._guarded(self._export))),
            Route("/act/{tool}", self._pages.open(self._guarded(self._act)), methods=["POST"]),
            Route("/lists/{user}/move", self._pages.open(self._guarded(self._move_own)), methods=["POST"]),
            *(Route(view.path, self._pages.open(self._guarded(self._page(view)))) for view in VIEWS),
        ]

    def is_form(self, path: str) -> bool:
        """Which addresses take forms."""
        return path.startswith("/act/") or (path.startswith("/lists/") and path.endswith("/move"))

    def _guarded(self, serve: Serve) -> Callable[[Request], Awaitable[Response]]:
        """A page for those who signed in; others are sent to do so first."""

        async def served(request: Request) -> Response:
            try:
                visitor = await self._visitor(request)
            except Unauthenticated as error:
                if _wants_page(request):
                    return RedirectResponse(f"/signin?next={quote(request.url.path)}", 303)
                return JSONResponse({"error": error.message}, 401)
            try:
                return await serve(request, visitor)
            except ShopfloorError as error:
                if not _wants_page(request):
                    return JSONResponse({"error": error.message, "hint": error.hint}, status_of(error))
                return self._problem(request, visitor, error)

        return served

    async def _visitor(self, request: Request) -> Visitor:
        return Visitor(self._floor, await self._pages.visits.credential(request))

    def _problem(self, request: Request, visitor: Visitor, error: ShopfloorError) -> Response:
        hint = error.hint
        if isinstance(error, PermissionDenied) and not visitor.at_the_desk:
            hint = f"Whoever runs this floor gives you a place at the desk: {SEAT}"
        return self._pages.html(
            request, "problem.html", status_of(error), visitor.credential, message=error.message, hint=hint
        )

    async def _serve(self, request: Request) -> Response:
        raise NotImplementedError(request.url.path)  # the routes of views are only matched against, never served

    async def _home(self, _: Request, visitor: Visitor) -> Response:
        return RedirectResponse("/floor" if visitor.at_the_desk else "/todo", 303)

    async def _enter(self, request: Request) -> Response:
        """Take a one-time link; the page that answers goes on by itself, as a page of this site."""
        if request.method != "GET":
            return Response(status_code=405)
        token = await asyncio.to_thread(enter, self._floor, request.query_params.get("key", ""))
        response = self._pages.html(request, "desk/entered.html", 200)
        self._pages.visits.sign_in(request, response, token)
        return response

    def _page(self, view: View) -> Serve:
        async def page(request: Request, visitor: Visitor) -> Response:
            given = {**dict(request.query_params), **{k: str(v) for k, v in request.path_params.items()}}
            found = await self._found(view, visitor, given)
            if found["badge"] is None:
                found["badge"] = badge(await visitor.ask("inbox_count"))
            address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return self._pages.html(
                request, view.template, 200, visitor.credential, **found, fragment=False,
                live=address if view.topics and not found.get("still") else None, here=address,
            )  # fmt: skip

        return page

    async def _found(self, view: View, visitor: Visitor, given: dict[str, str]) -> Json:
        return {"badge": None, **await view.look(visitor, given), "may": visitor.may, "visitor": visitor}

    async def _live(self, request: Request, visitor: Visitor) -> Response:
        """The stream of one page: what it shows, again whenever that changed."""
        address = request.query_params.get("page", "")
        view, given = self._addressed(address)
        if self._streams.open >= STREAMS:
            raise TooBusy

        async def render() -> dict[str, str | None]:
            found = await self._found(view, visitor, given)
            shown = {**found, "fragment": True, "csrf": "", "path": urlsplit(address).path, "here": address}
            template = self._pages.templates.get_template(view.template)
            html = await asyncio.to_thread(template.render, **shown)
            return {"html": html, "badge": None if found["badge"] is None else found["badge"] or "0"}

        async def still() -> None:
            again = await self._visitor(request)
            if again.principal != visitor.principal:
                raise Unauthenticated

        if not visitor.at_the_desk:
            raise PermissionDenied("You have no place at the desk")
        key = f"{visitor.principal.key if view.own else visitor.rights} {address}"
        lines = self._streams.events(key, view.topics, view.pause, render, still)
        return StreamingResponse(lines, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    def _addressed(self, address: str) -> tuple[View, dict[str, str]]:
        """The view at an address of ours, and what the address says."""
        parts = urlsplit(address)
        scope: dict[str, Any] = {"type": "http", "path": parts.path, "method": "GET", "root_path": ""}
        for route, view in self._views:
            match, found = route.matches(scope)
            if match is Match.FULL and view.topics:
                given = dict(parse_qsl(parts.query, max_num_fields=50))
                return view, given | {k: str(v) for k, v in found["path_params"].items()}
        raise NotFound("There is no such page")

    async def _export(self, request: Request, visitor: Visitor) -> Response:
        """The filtered log as JSON lines, page by page, so that no one has to hold all of it."""
        given = log_input(dict(request.query_params))
        first = await visitor.ask("log_search", **given, full=True, limit=200)

        async def lines() -> AsyncIterator[str]:
            page = first
            while True:
                for call in page["calls"]:
                    yield json.dumps(call, ensure_ascii=False) + "\n"
                if "nextCursor" not in page:
                    return
                try:
                    page = await self._further(request, given | {"cursor": page["nextCursor"]})
                except ShopfloorError as error:  # the status has been sent: the last line says that there was more
                    yield json.dumps({"incomplete": error.message, "cursor": page["nextCursor"]}) + "\n"
                    return

        name = 'attachment; filename="shopfloor-log.jsonl"'
        return StreamingResponse(lines(), media_type="application/jsonl", headers={"Content-Disposition": name})

    async def _further(self, request: Request, given: Json) -> Json:
        """The next page of an export, for whoever may still look."""
        if self._floor.stopping:
            raise TooBusy("The floor stops")
        return await (await self._visitor(request)).ask("log_search", **given, full=True, limit=200)

    async def _act(self, request: Request, visitor: Visitor) -> Response:
        """One deed of a visitor: a form becomes a call of the tool that it names."""
        form = await self._pages.form(request)
        name = request.path_params["tool"]
        tool = self._floor.toolsets["desk"].tools.get(name)
        if tool is None or tool.read_only:
            raise NotFound("There is no such action")
        return self._done(request, visitor, await visitor.answer(name, _input(tool, form)), local(form.get("back")))

    async def _move_own(self, request: Request, visitor: Visitor) -> Response:
        """A task of somebody's own list, moved by its owner, or by the operator in the owner's name."""
        form = await self._pages.form(request)
        owner = list_of(visitor, request.path_params["user"])
        deed = {"COMPLETED": "complete", "PENDING": "reopen"}.get(form.get("state", ""))
        if deed is None:
            raise InvalidInput("A list knows PENDING and COMPLETED only", field="state")
        given = {"taskId": _integer("number", form.get("number", ""))}
        answer = await visitor.answer(deed, given, toolset="personal", claim=owner)
        return self._done(request, visitor, answer, local(form.get("back")))

    def _done(self, request: Request, visitor: Visitor, answer: Answer, back: str) -> Response:
        """What a deed came to: for a script as it is, for a form the page that it came from."""
        if not _wants_page(request):
            status = status_of(answer.error)
            return JSONResponse(answer.body if answer.error is None or "error" in answer.body else {}, status)
        if answer.error is not None:
            raise answer.error
        if "token" in answer.body:
            return self._pages.html(
                request, "desk/token.html", 200, visitor.credential, token=answer.body["token"], back=back
            )
        return RedirectResponse(back, 303)


def _wants_page(request: Request) -> bool:
    return "application/json" not in request.headers.get("accept", "") and request.url.path != "/live"


def _input(tool: Tool, form: dict[str, str]) -> Json:
    """The fields of a form as the tool's signature wants them; empty ones are left out where empty text says nothing."""
    given: Json = {}
    for name, schema in tool.schema["properties"].items():
        text = form.get(name)
        if text is None or (not text.strip() and not _may_be_empty(schema)):
            continue
        match schema.get("type"):
            case "integer":
                given[name] = _integer(name, text)
            case "boolean":
                given[name] = text in ("true", "on", "1")
            case "array":
                given[name] = [_integer(name, part) for part in text.replace(",", " ").split()]
            case _:
                given[name] = text.replace("\r\n", "\n")
    return given


def _may_be_empty(schema: Json) -> bool:
    return schema.get("type") == "string" and "enum" not in schema and not schema.get("minLength")


def _integer(name: str, text: str) -> int:
    """A number, also of a task as pages spell it."""
    digits = text.strip().removeprefix("task-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise InvalidInput(f"'{name}' must be a number, not '{text.strip()[:40]}'", field=name)
    return int(digits)
