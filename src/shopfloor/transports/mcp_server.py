"""The MCP server: tools, resources, prompts and instructions, in the types of the protocol."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from starlette.requests import ClientDisconnect

from shopfloor import access
from shopfloor.domain.principals import Principal
from shopfloor.engine import Engine
from shopfloor.errors import InvalidInput, NotFound
from shopfloor.toolkit import DISCONNECTED_KEY, CallResult, Credential, Json, Prompt, Request, Resource, Tool, Toolset
from shopfloor.transports import elicitation
from shopfloor.transports.auth import read_trace
from shopfloor.transports.disconnect import call_unless_disconnected
from shopfloor.transports.execute import read_idempotency_key, retry_after_header
from shopfloor.transports.handshake import SERVER_NAME, SERVER_TITLE, write_instructions
from shopfloor.transports.headers import read_headers

KEY_META = "shopfloor/idempotencyKey"
REPLAYED_META = "shopfloor/idempotencyReplayed"
CREDENTIAL_KEY = "shopfloor.credential"
HEADERS_KEY = "shopfloor.headers"
"""Where the ASGI scope carries the credential of a request, and the headers of its response."""
_HEADER_MARK = "x-mcp-header"
_NON_OBJECT_KEY = f"arguments-{secrets.token_hex(8)}"  # random, so that no caller can send it
_TOOL_LIST_TTL_MS = 60_000
_RESOURCE_NOT_FOUND = -32002
_STATELESS_REVISION = "2026-07-28"
_CALL_REJECTED = -32003

Context = ServerRequestContext[Any, Any]


def build_server(
    engine: Engine, toolsets: Sequence[Toolset], transport: str, credential: Credential | None = None
) -> Server[Any]:
    """Build an MCP server over these toolsets."""
    handlers = _Handlers(engine, toolsets, transport, credential)
    server: Server[Any] = Server(
        SERVER_NAME,
        version=_find_version(),
        title=SERVER_TITLE,
        cache_hints={"tools/list": CacheHint(ttl_ms=_TOOL_LIST_TTL_MS, scope="private")},
        get_tool_input_schema=_schemas_with_header_args(toolsets),
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )
    add_instructions: Any = handlers.add_instructions  # the SDK's protocol fixes the name of a parameter
    server.middleware[:] = [add_instructions]
    return server


@cache
def _find_version() -> str:
    # Cached: parsing the package metadata takes longer than building an MCP server. A server has one per toolset, and a
    # crew has a server per task.
    return version("shopfloor")


class _Handlers:
    """The methods of MCP over some toolsets. Over HTTP each request brings its own credential."""

    def __init__(
        self, engine: Engine, toolsets: Sequence[Toolset], transport: str, credential: Credential | None
    ) -> None:
        self._engine = engine
        self._toolsets = toolsets
        self._toolset_of = {tool: toolset for toolset in toolsets for tool in toolset.tools}
        self._transport = transport
        self._credential = credential
        self._forms = elicitation.RequestForms(engine)

    def _read_credential(self, context: Context) -> Credential:
        if self._credential is not None:
            return self._credential
        assert context.request is not None
        credential: Credential = context.request.scope[CREDENTIAL_KEY]
        return credential

    def _authenticate(self, context: Context) -> Principal:
        return self._engine.identity.authenticate(self._read_credential(context))

    async def add_instructions(self, context: Context, call_next: CallNext) -> HandlerResult:
        """Answer the handshake with instructions for this caller."""
        result = await call_next(_wrap_non_object_arguments(context))
        if context.method in ("initialize", "server/discover") and isinstance(result, dict):
            result["instructions"] = write_instructions(self._authenticate(context), self._toolsets)
        return result

    async def list_tools(self, context: Context, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        actor = self._authenticate(context)
        tools = access.list_tools(actor, self._toolsets)
        return types.ListToolsResult(
            tools=[_to_mcp_tool(tool, access.build_schema(toolset, actor, tool)) for toolset, tool in tools]
        )

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> Any:
        meta: Mapping[str, Any] = params.meta or {}
        progress = _Progress(context) if "progressToken" in meta or "progress_token" in meta else None
        key = envelope_error = None
        try:
            key = _read_key(context, meta)
        except InvalidInput as error:
            # Raised inside the pipeline, so that the rejected call is logged.
            envelope_error = error
        request = Request(
            # The contract of the first toolset renders the error for an unknown tool.
            toolset=self._toolset_of.get(params.name, self._toolsets[0]),
            tool_name=params.name,
            input=_read_arguments(params),
            credential=self._read_credential(context),
            transport=self._transport,
            idempotency_key=key,
            session=_read_session(context),
            progress=progress,
            trace=read_trace(self._engine, meta.get, _find_header(context)),
            is_abandoned=partial(_is_disconnected, context),
            envelope_error=envelope_error,
        )
        form = elicitation.ResultForm()
        answer = await _run_call(self._engine, self._with_form(request, form, params, context.session), context)
        if progress is not None:
            await progress.wait_until_sent()
        if context.request is not None:
            context.request.scope[HEADERS_KEY] = _result_headers(answer)
        return _to_mcp_result(answer) if form.question is None else elicitation.to_input_required(form.question)

    def _with_form(
        self,
        request: Request,
        form: elicitation.ResultForm,
        params: types.CallToolRequestParams,
        session: ServerSession,
    ) -> Request:
        """Return the request with a way to ask the person at the client, or with that person's answer."""
        tool = request.tool
        if params.request_state is not None:
            arguments = elicitation.read_state(tool, params.request_state)
            return elicitation.continue_call(request, arguments, elicitation.read_responses(params.input_responses))
        is_wanted = tool is not None and tool.elicits and self._engine.settings.elicitation
        if not is_wanted or not elicitation.has_forms(session):
            return request
        if elicitation.is_stateless(session):
            return replace(request, elicit=form)
        return replace(request, elicit=partial(self._forms.show, session, request))

    async def list_resources(
        self, context: Context, _: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        found = [resource for resource in self._list_allowed(context) if not resource.is_template]
        return types.ListResourcesResult(resources=[_to_mcp_resource(resource) for resource in found])

    async def list_templates(
        self, context: Context, _: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        found = [resource for resource in self._list_allowed(context) if resource.is_template]
        return types.ListResourceTemplatesResult(resource_templates=[_to_mcp_template(resource) for resource in found])

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Read a document by an ordinary call of its tool."""
        uri = str(params.uri)
        for toolset in self._toolsets:
            for resource in toolset.resources:
                if (arguments := resource.parse_arguments(uri)) is not None:
                    session = _read_session(context)
                    credential = self._read_credential(context)
                    request = Request(toolset, resource.tool, arguments, credential, self._transport, session=session)
                    return _to_mcp_contents(resource, uri, await self._engine.acall(request), _not_found_code(context))
        raise MCPError(
            code=_not_found_code(context), message=f"Resource not found: {uri[:200]}", data={"uri": uri[:200]}
        )

    async def list_prompts(self, context: Context, _: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        prompts = access.list_prompts(self._authenticate(context), self._toolsets)
        return types.ListPromptsResult(prompts=[_to_mcp_prompt(prompt) for prompt in prompts])

    async def get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        prompts = access.list_prompts(self._authenticate(context), self._toolsets)
        prompt = next((each for each in prompts if each.name == params.name), None)
        if prompt is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Prompt not found: {params.name[:200]}")
        content = types.TextContent(type="text", text=prompt.text(params.arguments or {}))
        return types.GetPromptResult(
            description=prompt.description, messages=[types.PromptMessage(role="user", content=content)]
        )

    def _list_allowed(self, context: Context) -> list[Resource]:
        return [resource for _, resource in access.list_resources(self._authenticate(context), self._toolsets)]


def _result_headers(answer: CallResult) -> list[tuple[bytes, bytes]]:
    headers = retry_after_header(answer.error)
    if answer.record.replayed:
        headers["Idempotency-Replayed"] = "true"
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def _to_mcp_tool(tool: Tool, schema: Json) -> types.Tool:
    # For a read-only tool, the protocol gives the other two hints no meaning, and `readOnly` and `idempotent` default
    # to false. Every model pays for each word of the list.
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=_shorten_schema(schema),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only or None,
            destructive_hint=None if tool.read_only else tool.destructive,
            idempotent_hint=True if tool.idempotent and not tool.read_only else None,
            open_world_hint=False,
        ),
    )


def _shorten_schema(schema: Json) -> Json:
    """Omit length limits that descriptions do not mention, except that a required argument must not be empty.

    The server checks them anyway. They were 100 of the 2,800 tokens of a worker's list.
    """
    required = schema.get("required", ())
    return schema | {
        "properties": {
            name: _drop_lengths(each, keep_minimum=name in required) for name, each in schema["properties"].items()
        }
    }


def _drop_lengths(argument: Json, *, keep_minimum: bool) -> Json:
    described = argument.get("description", "")
    kept = {
        key: value
        for key, value in argument.items()
        if key not in ("minLength", "maxLength") or str(value) in described or (key == "minLength" and keep_minimum)
    }
    if isinstance(kept.get("items"), dict):
        kept["items"] = _drop_lengths(kept["items"], keep_minimum=False)
    return kept


def _schemas_with_header_args(toolsets: Sequence[Toolset]) -> Callable[[str], Mapping[str, Any] | None]:
    """Return the schemas with arguments repeated in headers: the SDK reads a schema on every call to check them."""
    tools = {tool.name: tool for toolset in toolsets for tool in toolset.tools.values()}
    found: dict[str, Mapping[str, Any] | None] = {}

    def schema(name: str) -> Mapping[str, Any] | None:
        if name in tools and name not in found:
            found[name] = tools[name].schema if _HEADER_MARK in json.dumps(tools[name].schema) else None
        return found.get(name)

    return schema


def _to_mcp_result(answer: CallResult) -> dict[str, Any]:
    """Render the result: text and structured content are the same, the notice of unread mail is a separate block."""
    notice = answer.record.notice
    content = [{"type": "text", "text": answer.text}]
    result: dict[str, Any] = {"content": content, "isError": answer.error is not None, "resultType": "complete"}
    if isinstance(answer.body, dict):
        result["structuredContent"] = answer.body if notice is None else {**answer.body, "notice": notice}
    if notice is not None:
        content.append({"type": "text", "text": notice})
    if answer.record.replayed:
        result["_meta"] = {REPLAYED_META: True}
    return result


def _wrap_non_object_arguments(context: Context) -> Context:
    """Wrap arguments that are not an object, so that the toolset rejects and logs them."""
    params = context.params
    if context.method != "tools/call" or params is None or isinstance(params.get("arguments"), Mapping | None):
        return context
    return replace(context, params={**params, "arguments": {_NON_OBJECT_KEY: params["arguments"]}})


def _read_arguments(params: types.CallToolRequestParams) -> Any:
    given = params.arguments or {}
    return given.get(_NON_OBJECT_KEY, given)


async def _run_call(engine: Engine, request: Request, context: Context) -> CallResult:
    if context.request is None:
        return await engine.acall(request)
    try:
        return await call_unless_disconnected(engine, request, context.request.receive)
    except ClientDisconnect:
        raise MCPError(code=_CALL_REJECTED, message="The caller disconnected") from None


def _read_key(context: Context, meta: Mapping[str, Any]) -> str | None:
    """Return the idempotency key of the header or the metadata."""
    sent = [] if context.request is None else read_headers(context.request.scope).list("idempotency-key")
    return read_idempotency_key(sent, meta.get(KEY_META))


def _is_disconnected(context: Context) -> bool:
    """Return whether the client has closed its connection."""
    return context.request is not None and DISCONNECTED_KEY in context.request.scope


def _read_session(context: Context) -> str | None:
    return _find_header(context)("mcp-session-id") or None


def _find_header(context: Context) -> Callable[[str], str]:
    """Return a function that finds a header of the request; stdio has none."""
    return (lambda _: "") if context.request is None else read_headers(context.request.scope).find


class _Progress:
    """Progress reported by the call's thread and sent by the event loop, completely before the result."""

    def __init__(self, context: Context) -> None:
        self._session = context.session
        self._loop = asyncio.get_running_loop()
        self._sent: list[Future[None]] = []

    def __call__(self, done: float, total: float | None, message: str | None) -> None:
        sending = self._session.report_progress(done, total, message)
        self._sent.append(asyncio.run_coroutine_threadsafe(sending, self._loop))

    async def wait_until_sent(self) -> None:
        await asyncio.gather(*map(asyncio.wrap_future, self._sent), return_exceptions=True)


def _to_mcp_resource(resource: Resource) -> types.Resource:
    return types.Resource(
        uri=resource.uri, name=resource.name, description=resource.description, mime_type=resource.mime_type
    )


def _to_mcp_template(resource: Resource) -> types.ResourceTemplate:
    return types.ResourceTemplate(
        uri_template=resource.uri, name=resource.name, description=resource.description, mime_type=resource.mime_type
    )


def _to_mcp_prompt(prompt: Prompt) -> types.Prompt:
    arguments = [
        types.PromptArgument(name=name, description=description, required=False)
        for name, description in prompt.arguments.items()
    ]
    return types.Prompt(name=prompt.name, title=prompt.title, description=prompt.description, arguments=arguments)


def _to_mcp_contents(resource: Resource, uri: str, answer: CallResult, not_found_code: int) -> types.ReadResourceResult:
    """Return the document, or raise a protocol error, the only kind of error for resources."""
    if answer.error is not None:
        code = not_found_code if isinstance(answer.error, NotFound) else _CALL_REJECTED
        raise MCPError(
            code=code, message=answer.request.toolset.error_text(answer.error, answer.request), data={"uri": uri}
        )
    text = resource.text(answer.body)
    contents = types.TextResourceContents(uri=uri, mime_type=resource.mime_type, text=text)
    return types.ReadResourceResult(contents=[contents])


def _not_found_code(context: Context) -> int:
    """Return the code of a missing resource: the stateless revision counts it as an invalid parameter (SEP-2164)."""
    return types.INVALID_PARAMS if context.protocol_version >= _STATELESS_REVISION else _RESOURCE_NOT_FOUND
