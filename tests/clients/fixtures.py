"""A server with the tools, resources and prompts that the MCP conformance suite calls by name.

Nothing here belongs to Shopfloor: the tests are about serving over HTTP (see endpoint.py).
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.jsonrpc import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY

Context = ServerRequestContext[Any, Any]
Answer = types.CallToolResult | types.InputRequiredResult
Call = types.CallToolRequestParams
Prompt = Callable[[types.GetPromptRequestParams], types.GetPromptResult | types.InputRequiredResult]

NAME = "conformance-fixtures"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
PAUSE_SECONDS = 0.05  # the suite asks for a pause between two notifications


@dataclass(frozen=True)
class Fixture:
    run: Callable[[Context, Call], Awaitable[Answer]]
    schema: dict[str, Any]
    description: str


TOOLS: dict[str, Fixture] = {}
PROMPTS: dict[str, tuple[Prompt, list[str]]] = {}


def build_server() -> Server[Any]:
    bus = InMemorySubscriptionBus()
    server = Server(
        NAME,
        version="1.0.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=lambda name: TOOLS[name].schema if name in TOOLS else None,
        on_list_resources=list_resources,
        on_list_resource_templates=list_resource_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=accept,
        on_unsubscribe_resource=accept,
        on_subscriptions_listen=ListenHandler(bus),
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, accept)
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    TOOLS["test_trigger_tool_change"] = _make_trigger(bus, ToolsListChanged())
    TOOLS["test_trigger_prompt_change"] = _make_trigger(bus, PromptsListChanged())
    return server


# Tools


async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, description=tool.description, input_schema=tool.schema)
            for name, tool in sorted(TOOLS.items())
        ]
    )


async def call_tool(context: Context, call: Call) -> Answer:
    if call.name not in TOOLS:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {call.name}")
    return await TOOLS[call.name].run(context, call)


def tool(description: str, **properties: Any) -> Callable[..., Any]:
    """Register a tool by the name of its function. Every property is required."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}

    def register(run: Callable[[Context, Call], Awaitable[Answer]]) -> Callable[[Context, Call], Awaitable[Answer]]:
        TOOLS[run.__name__] = Fixture(run, schema, description)
        return run

    return register


def make_result(*blocks: str | types.ContentBlock, is_error: bool = False) -> types.CallToolResult:
    content = [types.TextContent(text=block) if isinstance(block, str) else block for block in blocks]
    return types.CallToolResult(content=content, is_error=is_error)


def make_image() -> types.ImageContent:
    return types.ImageContent(data=PIXEL, mime_type="image/png")


def make_resource(uri: str, text: str, mime_type: str = "text/plain") -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=text))


@tool("Return text")
async def test_simple_text(context: Context, call: Call) -> Answer:
    return make_result("This is a simple text response for testing.")


@tool("Return an image")
async def test_image_content(context: Context, call: Call) -> Answer:
    return make_result(make_image())


@tool("Return a sound")
async def test_audio_content(context: Context, call: Call) -> Answer:
    return make_result(types.AudioContent(data=SILENCE, mime_type="audio/wav"))


@tool("Return a resource")
async def test_embedded_resource(context: Context, call: Call) -> Answer:
    return make_result(make_resource("test://embedded-resource", "This is an embedded resource content."))


@tool("Return text, an image and a resource")
async def test_multiple_content_types(context: Context, call: Call) -> Answer:
    data = json.dumps({"test": "data", "value": 123})
    return make_result(
        "Multiple content types test:",
        make_image(),
        make_resource("test://mixed-content-resource", data, "application/json"),
    )


@tool("Return an error")
async def test_error_handling(context: Context, call: Call) -> Answer:
    return make_result("This tool intentionally returns an error for testing", is_error=True)


@tool("Log three lines")
async def test_tool_with_logging(context: Context, call: Call) -> Answer:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.session.send_log_message("info", line, related_request_id=context.request_id)
        await anyio.sleep(PAUSE_SECONDS)
    return make_result("Tool with logging executed successfully")


@tool("Log one line, which only callers that asked for logs get")
async def test_logging_tool(context: Context, call: Call) -> Answer:
    await context.session.send_log_message("info", "A line", related_request_id=context.request_id)
    return make_result("Logged")


@tool("Report progress")
async def test_tool_with_progress(context: Context, call: Call) -> Answer:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(PAUSE_SECONDS)
    return make_result("Tool with progress executed successfully")


@tool("Close the stream and finish after the client has reconnected")
async def test_reconnection(context: Context, call: Call) -> Answer:
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
        await anyio.sleep(4 * PAUSE_SECONDS)
    return make_result("Reconnection test completed")


@tool("Read an argument that is repeated in a header", region={"type": "string", "x-mcp-header": "Region"})
async def test_header_parameter(context: Context, call: Call) -> Answer:
    return make_result(f"Region: {(call.arguments or {}).get('region')}")


@tool("Require a client that can sample")
async def test_missing_capability(context: Context, call: Call) -> Answer:
    needed = types.ClientCapabilities(sampling=types.SamplingCapability())
    if not context.session.check_client_capability(needed):
        missing = types.MissingRequiredClientCapabilityErrorData(required_capabilities=needed)
        data = missing.model_dump(mode="json", by_alias=True, exclude_none=True)
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs a client that can sample", data)
    return make_result("The client can sample")


async def _json_schema_tool(context: Context, call: Call) -> Answer:
    return make_result(json.dumps(call.arguments or {}, sort_keys=True))


TOOLS["json_schema_2020_12_tool"] = Fixture(
    _json_schema_tool,
    description="Tool with JSON Schema 2020-12 features",
    schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)


def _make_trigger(bus: InMemorySubscriptionBus, event: ToolsListChanged | PromptsListChanged) -> Fixture:
    async def run(context: Context, call: Call) -> Answer:
        await bus.publish(event)
        return make_result("Announced")

    return Fixture(run, {"type": "object", "properties": {}}, "Announce that a list has changed")


# Tools that ask the client for input: in the handshake revisions with a request of their own …


@tool("Ask the model of the client", prompt={"type": "string"})
async def test_sampling(context: Context, call: Call) -> Answer:
    question = types.TextContent(text=(call.arguments or {})["prompt"])
    reply = await context.session.create_message(
        [types.SamplingMessage(role="user", content=question)], max_tokens=100, related_request_id=context.request_id
    )
    return make_result(f"LLM response: {reply.content.text if isinstance(reply.content, types.TextContent) else ''}")


async def elicit(context: Context, message: str, properties: dict[str, Any], required: list[str]) -> Answer:
    schema = {"type": "object", "properties": properties, "required": required}
    reply = await context.session.elicit_form(message, schema, related_request_id=context.request_id)
    return make_result(f"Elicitation completed: action={reply.action}, content={json.dumps(reply.content)}")


@tool("Ask the user", message={"type": "string"})
async def test_elicitation(context: Context, call: Call) -> Answer:
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return await elicit(context, (call.arguments or {})["message"], fields, list(fields))


@tool("Ask the user, with defaults")
async def test_elicitation_sep1034_defaults(context: Context, call: Call) -> Answer:
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await elicit(context, "Please check your details", fields, [])


@tool("Ask the user to choose")
async def test_elicitation_sep1330_enums(context: Context, call: Call) -> Answer:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": title} for n, title in enumerate(("First", "Second", "Third"), 1)]
    names = ["Option One", "Option Two", "Option Three"]
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await elicit(context, "Please choose", fields, [])


# … and from 2026-07-28 on with a response that names the missing input.


@dataclass(frozen=True)
class Round:
    """The inputs that one response asks for. The client returns `state` with its next try."""

    requests: dict[str, types.InputRequest]
    state: str | None = None

    def ask(self) -> types.InputRequiredResult:
        return types.InputRequiredResult(input_requests=self.requests, request_state=self.state)

    def is_answered_by(self, params: types.InputResponseRequestParams) -> bool:
        responses = params.input_responses or {}
        return self.requests.keys() <= responses.keys() and params.request_state == self.state


def make_form(message: str, **fields: str) -> types.ElicitRequest:
    properties = {name: {"type": kind} for name, kind in fields.items()}
    schema = {"type": "object", "properties": properties, "required": list(fields)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def make_sample(text: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))


def format_responses(params: types.InputResponseRequestParams) -> str:
    """Format the responses of the client as JSON, by key."""
    responses = params.input_responses or {}
    return json.dumps({key: value.model_dump(mode="json", by_alias=True) for key, value in responses.items()})


async def _run_rounds(rounds: list[Round], done: str, context: Context, call: Call) -> Answer:
    """Return the round after the one that `call` answers, or the result after the last."""
    for answered, upcoming in zip(rounds, [*rounds[1:], None], strict=True):
        if answered.is_answered_by(call):
            return upcoming.ask() if upcoming else make_result(f"{done}: {format_responses(call)}")
    return rounds[0].ask()


def add_asking_tool(name: str, *rounds: Round, done: str = "Answered") -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    TOOLS[name] = Fixture(partial(_run_rounds, list(rounds), done), schema, "Ask for input before responding")


NAME_FORM = make_form("What is your name?", name="string")
ROOTS = types.ListRootsRequest()

add_asking_tool("test_streaming_elicitation", Round({"user_name": NAME_FORM}))
add_asking_tool("test_input_required_result_elicitation", Round({"user_name": NAME_FORM}), done="Hello")
add_asking_tool(
    "test_input_required_result_sampling", Round({"capital_question": make_sample("What is the capital of France?")})
)
add_asking_tool("test_input_required_result_list_roots", Round({"client_roots": ROOTS}))
add_asking_tool(
    "test_input_required_result_request_state",
    Round({"confirm": make_form("Please confirm", ok="boolean")}, state="asked"),
    done="state-ok",
)
add_asking_tool(
    "test_input_required_result_tampered_state", Round({"confirm": make_form("Please confirm", ok="boolean")}, "asked")
)
add_asking_tool(
    "test_input_required_result_multiple_inputs",
    Round(
        {"user_name": NAME_FORM, "greeting": make_sample("Generate a greeting"), "client_roots": ROOTS}, state="asked"
    ),
)
add_asking_tool(
    "test_input_required_result_multi_round",
    Round({"step1": make_form("Step 1: What is your name?", name="string")}, state="step 1"),
    Round({"step2": make_form("Step 2: What is your favorite color?", color="string")}, state="step 2"),
)


@tool("Ask only for what the client supports")
async def test_input_required_result_capabilities(context: Context, call: Call) -> Answer:
    capabilities = context.session.client_capabilities or types.ClientCapabilities()
    requests: dict[str, types.InputRequest] = {}
    if capabilities.elicitation is not None:
        requests["user_name"] = NAME_FORM
    if capabilities.sampling is not None:
        requests["greeting"] = make_sample("Generate a greeting")
    if not requests or call.input_responses:
        return make_result(f"Answered: {format_responses(call)}")
    return types.InputRequiredResult(input_requests=requests)


# Resources

RESOURCES: dict[str, types.TextResourceContents | types.BlobResourceContents] = {
    "test://static-text": types.TextResourceContents(
        uri="test://static-text", mime_type="text/plain", text="This is the content of the static text resource."
    ),
    "test://static-binary": types.BlobResourceContents(uri="test://static-binary", mime_type="image/png", blob=PIXEL),
    "test://watched-resource": types.TextResourceContents(
        uri="test://watched-resource", mime_type="text/plain", text="Watched resource content"
    ),
}


async def list_resources(context: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=uri, name=uri.removeprefix("test://"), description="A fixture", mime_type=body.mime_type)
            for uri, body in RESOURCES.items()
        ]
    )


async def list_resource_templates(
    context: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template="test://template/{id}/data", name="template", description="By id")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    if uri in RESOURCES:
        return types.ReadResourceResult(contents=[RESOURCES[uri]])
    if uri.startswith("test://template/") and uri.endswith("/data"):
        resource_id = uri.removeprefix("test://template/").removesuffix("/data")
        text = json.dumps({"id": resource_id, "templateTest": True, "data": f"Data for ID: {resource_id}"})
        body = types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
        return types.ReadResourceResult(contents=[body])
    raise MCPError(INVALID_PARAMS, "Resource not found", {"uri": uri})


async def accept(context: Context, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


# Prompts


async def list_prompts(context: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name,
                description="A fixture",
                arguments=[types.PromptArgument(name=argument, required=True) for argument in arguments],
            )
            for name, (_, arguments) in PROMPTS.items()
        ]
    )


async def get_prompt(
    context: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    if params.name not in PROMPTS:
        raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}")
    return PROMPTS[params.name][0](params)


def prompt(*arguments: str) -> Callable[[Prompt], Prompt]:
    def register(run: Prompt) -> Prompt:
        PROMPTS[run.__name__] = (run, list(arguments))
        return run

    return register


def ask_model(*blocks: str | types.ContentBlock) -> types.GetPromptResult:
    content = [types.TextContent(text=block) if isinstance(block, str) else block for block in blocks]
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block) for block in content])


@prompt()
def test_simple_prompt(params: types.GetPromptRequestParams) -> types.GetPromptResult:
    return ask_model("This is a simple prompt for testing.")


@prompt("arg1", "arg2")
def test_prompt_with_arguments(params: types.GetPromptRequestParams) -> types.GetPromptResult:
    arguments = params.arguments or {}
    return ask_model(f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'")


@prompt("resourceUri")
def test_prompt_with_embedded_resource(params: types.GetPromptRequestParams) -> types.GetPromptResult:
    resource = make_resource((params.arguments or {})["resourceUri"], "Embedded resource content for testing.")
    return ask_model(resource, "Please process the embedded resource above.")


@prompt()
def test_prompt_with_image(params: types.GetPromptRequestParams) -> types.GetPromptResult:
    return ask_model(make_image(), "Please analyze the image above.")


@prompt()
def test_input_required_result_prompt(
    params: types.GetPromptRequestParams,
) -> types.GetPromptResult | types.InputRequiredResult:
    wanted = Round({"user_context": make_form("What context should the prompt use?", context="string")})
    return ask_model(f"Context: {format_responses(params)}") if wanted.is_answered_by(params) else wanted.ask()


async def complete(context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))
