"""MCP: the same calls in the words of the protocol. Nobody else imports the SDK.

Stateless, so that a restart breaks no client; answers are plain JSON, or a stream of events when the caller
asked for progress. Both protocol eras are served at the same address.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from shopfloor.app import Floor
from shopfloor.errors import InvalidInput, NotFound, ShopfloorError, Unauthenticated
from shopfloor.toolkit import Answer, Call, Credential, Resource, Tool, Toolset
from shopfloor.transports import exchange
from shopfloor.transports.auth import authenticate, challenge, trace_of
from shopfloor.transports.bodies import read_body, too_deep
from shopfloor.transports.execute import one_key, retry_after
from shopfloor.transports.gate import BODY_LIMIT
from shopfloor.transports.waiting import answered

KEY_META = "shopfloor/idempotencyKey"
REPLAYED_META = "shopfloor/idempotencyReplayed"
_CREDENTIAL = "shopfloor.credential"
_HEADERS = "shopfloor.headers"
_HEADER_MARK = "x-mcp-header"
_BARE = "shopfloor.arguments"
_TOOLS_FRESH_MS = 60_000
_NO_RESOURCE = -32002
_REFUSED = -32003

Context = ServerRequestContext[Any, Any]


def server(floor: Floor, toolsets: Sequence[Toolset], door: str, credential: Credential | None = None) -> Server[Any]:
    """An MCP server over these toolsets. Over HTTP each request brings its own credential."""
    toolset_of = {tool: toolset for toolset in toolsets for tool in toolset.tools}

    def shown(context: Context) -> Credential:
        if credential is not None:
            return credential
        assert context.request is not None
        return context.request.scope[_CREDENTIAL]  # type: ignore[no-any-return]

    async def list_tools(context: Context, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        actor = floor.identity.authenticate(shown(context))
        return types.ListToolsResult(tools=[_listed(tool) for _, tool in floor.tools_for(actor, toolsets)])

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        meta: Mapping[str, Any] = params.meta or {}
        progress = _Progress(context) if "progressToken" in meta or "progress_token" in meta else None
        call = Call(
            toolset=toolset_of.get(params.name, toolsets[0]),
            name=params.name,
            input=_given(params),
            credential=shown(context),
            door=door,
            session=_session(context),
            progress=progress,
            trace=trace_of(floor, meta, context.request.headers if context.request else {}),
        )
        try:
            call.key = _key(context, meta)
        except InvalidInput as error:
            call.fault = error
        answer = await _answered(floor, call, context)
        if progress is not None:
            await progress.settled()
        if context.request is not None:
            context.request.scope[_HEADERS] = _answer_headers(answer)
        return _result(answer)

    async def introduce(context: Context, call_next: CallNext) -> HandlerResult:
        result = await call_next(_with_an_object(context))
        if context.method in ("initialize", "server/discover") and isinstance(result, dict):
            caller = floor.acting_as(toolsets[0], floor.identity.authenticate(shown(context)))
            meant = [toolset for toolset in toolsets if floor.guides(toolset, caller)]
            result["instructions"] = _instructions(meant, caller.name if caller.role else None)
        return result

    resources = _Resources(floor, toolsets, door, shown)
    return _made(list_tools, call_tool, resources, introduce, _mirrored(toolsets))


def _made(list_tools: Any, call_tool: Any, resources: _Resources, introduce: Any, schema: Any) -> Server[Any]:
    made: Server[Any] = Server(
        "shopfloor",
        version=version("shopfloor"),
        title="Shopfloor",
        cache_hints={"tools/list": CacheHint(ttl_ms=_TOOLS_FRESH_MS, scope="private")},
        get_tool_input_schema=schema,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=resources.listed,
        on_list_resource_templates=resources.templates,
        on_read_resource=resources.read,
        on_list_prompts=_no_prompts,
    )
    made.middleware[:] = [introduce]
    return made


class _Resources:
    """What can be read at an address: each reading is a call like any other."""

    def __init__(
        self, floor: Floor, toolsets: Sequence[Toolset], door: str, shown: Callable[[Context], Credential]
    ) -> None:
        self._floor = floor
        self._toolsets = toolsets
        self._door = door
        self._shown = shown

    async def listed(self, context: Context, _: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        found = [resource for resource in self._for(context) if not resource.is_template]
        return types.ListResourcesResult(resources=[_resource(resource) for resource in found])

    async def templates(
        self, context: Context, _: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        found = [resource for resource in self._for(context) if resource.is_template]
        return types.ListResourceTemplatesResult(resource_templates=[_template(resource) for resource in found])

    async def read(self, context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        for toolset in self._toolsets:
            for resource in toolset.resources:
                if (arguments := resource.arguments(uri)) is not None:
                    session = _session(context)
                    call = Call(toolset, resource.tool, arguments, self._shown(context), self._door, session=session)
                    return _contents(resource, uri, await self._floor.acall(call))
        raise MCPError(code=_NO_RESOURCE, message=f"There is no resource {uri[:200]}", data={"uri": uri[:200]})

    def _for(self, context: Context) -> list[Resource]:
        actor = self._floor.identity.authenticate(self._shown(context))
        return [resource for _, resource in self._floor.resources_for(actor, self._toolsets)]


class Endpoint:
    """An MCP server as an ASGI application, behind the gate."""

    def __init__(self, floor: Floor, server: Server[Any]) -> None:
        self._floor = floor
        self._server = server
        self._plain = _manager(server, json_response=True)
        self._streaming = _manager(server, json_response=False)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """For as long as requests are served."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._plain.run())
            await stack.enter_async_context(self._streaming.run())
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            raise HTTPException(405, headers={"Allow": "POST"})
        headers = Headers(scope=scope)
        try:
            scope[_CREDENTIAL] = await authenticate(self._floor, headers)
            body = await read_body(receive)
        except ClientDisconnect:
            return
        except ShopfloorError as error:
            await self._refuse(error, headers, scope, receive, send)
            return
        if too_deep(body):
            await _protocol_error(400, -32600, "JSON must not nest deeper than 64 levels")(scope, receive, send)
            return
        _strip_spaces(scope)
        sending = _with_headers(scope, send)
        call = exchange.plain_call(self._server, Headers(scope=scope), body)
        if call is not None and await exchange.answer(self._server, call, scope, receive, sending):
            return
        streams = b'"progressToken"' in body and "text/event-stream" in headers.get("accept", "")
        manager = self._streaming if streams else self._plain
        await manager.handle_request(scope, _replayed(body, receive), sending)

    async def _refuse(
        self, error: ShopfloorError, headers: Headers, scope: Scope, receive: Receive, send: Send
    ) -> None:
        status, extra = 503, retry_after(error)
        if isinstance(error, Unauthenticated):
            status, extra = 401, challenge(self._floor, str(Request(scope).base_url), headers)
        response = _protocol_error(status, -32001, error.message)
        response.headers.update(extra)
        await response(scope, receive, send)


def _manager(server: Server[Any], *, json_response: bool) -> StreamableHTTPSessionManager:
    return StreamableHTTPSessionManager(
        server, json_response=json_response, stateless=True, max_request_body_size=BODY_LIMIT
    )


def _protocol_error(status: int, code: int, message: str) -> JSONResponse:
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}, status)


def _strip_spaces(scope: Scope) -> None:
    """httptools leaves the spaces around header values, which the SDK would take for part of them."""
    scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body once more, then whatever else the connection has to say."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _with_headers(scope: Scope, send: Send) -> Send:
    """Adds what the call has to say in headers, when it is known by then."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and (extra := scope.get(_HEADERS)):
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        await send(message)

    return sending


def _answer_headers(answer: Answer) -> list[tuple[bytes, bytes]]:
    headers = retry_after(answer.error)
    if answer.call.replayed:
        headers["Idempotency-Replayed"] = "true"
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def _listed(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
    )


def _mirrored(toolsets: Sequence[Toolset]) -> Callable[[str], Mapping[str, Any] | None]:
    """The schemas that have arguments repeated in headers: the SDK reads a schema at every call to check those."""
    tools = {tool.name: tool for toolset in toolsets for tool in toolset.tools.values()}
    found: dict[str, Mapping[str, Any] | None] = {}

    def schema(name: str) -> Mapping[str, Any] | None:
        if name in tools and name not in found:
            found[name] = tools[name].schema if _HEADER_MARK in json.dumps(tools[name].schema) else None
        return found.get(name)

    return schema


def _result(answer: Answer) -> dict[str, Any]:
    """Text and structured content say the same; the notice of unread mail is a last block of its own."""
    notice = answer.call.notice
    content = [{"type": "text", "text": answer.text}]
    result: dict[str, Any] = {"content": content, "isError": answer.error is not None, "resultType": "complete"}
    if isinstance(answer.body, dict):
        result["structuredContent"] = answer.body if notice is None else {**answer.body, "notice": notice}
    if notice is not None:
        content.append({"type": "text", "text": notice})
    if answer.call.replayed:
        result["_meta"] = {REPLAYED_META: True}
    return result


def _with_an_object(context: Context) -> Context:
    """Arguments that are no object go on inside of one: it is for the toolset to refuse them, and for the log to say."""
    params = context.params
    if context.method != "tools/call" or params is None or isinstance(params.get("arguments"), Mapping | None):
        return context
    return replace(context, params={**params, "arguments": {_BARE: params["arguments"]}})


def _given(params: types.CallToolRequestParams) -> Any:
    given = params.arguments or {}
    return given.get(_BARE, given)


async def _answered(floor: Floor, call: Call, context: Context) -> Answer:
    if context.request is None:
        return await floor.acall(call)
    try:
        return await answered(floor, call, context.request.receive)
    except ClientDisconnect:
        raise MCPError(code=_REFUSED, message="The caller went away") from None


def _key(context: Context, meta: Mapping[str, Any]) -> str | None:
    """The idempotency key, wherever it stands: over HTTP the header is as good as the metadata."""
    sent = [] if context.request is None else context.request.headers.getlist("idempotency-key")
    return one_key(sent, meta.get(KEY_META))


def _session(context: Context) -> str | None:
    request = context.request
    return None if request is None else request.headers.get("mcp-session-id")


class _Progress:
    """Progress from the thread of the call, sent by the loop of the door, and all of it before the answer."""

    def __init__(self, context: Context) -> None:
        self._session = context.session
        self._loop = asyncio.get_running_loop()
        self._sent: list[Future[None]] = []

    def __call__(self, done: float, total: float | None, message: str | None) -> None:
        sending = self._session.report_progress(done, total, message)
        self._sent.append(asyncio.run_coroutine_threadsafe(sending, self._loop))

    async def settled(self) -> None:
        await asyncio.gather(*map(asyncio.wrap_future, self._sent), return_exceptions=True)


def _instructions(toolsets: Sequence[Toolset], agent: str | None) -> str:
    who = f"You are the agent '{agent}'. " if agent else ""
    return who + " ".join(toolset.instructions for toolset in toolsets if toolset.instructions)


def _resource(resource: Resource) -> types.Resource:
    return types.Resource(
        uri=resource.uri, name=resource.name, description=resource.description, mime_type=resource.mime_type
    )


def _template(resource: Resource) -> types.ResourceTemplate:
    return types.ResourceTemplate(
        uri_template=resource.uri, name=resource.name, description=resource.description, mime_type=resource.mime_type
    )


def _contents(resource: Resource, uri: str, answer: Answer) -> types.ReadResourceResult:
    """What is to be read; there is no other way to refuse here than an error of the protocol."""
    if answer.error is not None:
        code = _NO_RESOURCE if isinstance(answer.error, NotFound) else _REFUSED
        raise MCPError(code=code, message=answer.call.toolset.words(answer.error, answer.call), data={"uri": uri})
    text = resource.text(answer.body)
    contents = types.TextResourceContents(uri=uri, mime_type=resource.mime_type, text=text)
    return types.ReadResourceResult(contents=[contents])


async def _no_prompts(_: Context, __: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[])
