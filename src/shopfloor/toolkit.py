"""The building blocks of toolsets: Tool, Toolset, and the values of one call: Request, Context, CallResult.

The signature of a tool is its schema. A toolset is a group of tools that share one contract: how arguments are
named, what kind of principal calls, who may call what, and how results and errors are rendered.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Annotated, Any, NamedTuple, Self
from urllib.parse import unquote

from pydantic import Field
from pydantic_core import to_json

from shopfloor.domain.decisions import format_context, measure_json
from shopfloor.domain.pagination import DEFAULT_PAGE_ROWS, MAX_PAGE_ROWS
from shopfloor.domain.principals import Kind, Principal
from shopfloor.domain.redaction import escape_unprintable, redact
from shopfloor.domain.times import format_iso
from shopfloor.errors import InvalidInput, ShopfloorError
from shopfloor.signatures import ELICITED, RESUMED, Json, Signature, build_signature

__all__ = ["Json"]

Limit = Annotated[
    int | None, Field(description=f"1-{MAX_PAGE_ROWS}, default {DEFAULT_PAGE_ROWS}", ge=1, le=MAX_PAGE_ROWS)
]
Cursor = Annotated[str | None, Field(description="The previous nextCursor", max_length=200)]
"""The arguments of every list."""

ReportProgress = Callable[[float, float | None, str | None], None]

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


@dataclass(frozen=True)
class Tool:
    """A function with a name, a typed signature and a description."""

    name: str
    description: str
    run: Callable[..., Any]
    make_signature: Callable[[], Signature]
    read_only: bool
    destructive: bool
    idempotent: bool
    external: bool
    waits: bool
    secret: bool
    stores_input: bool = False
    admin: bool = False
    approval: bool = False
    critical: bool = False
    listed: bool = True
    elicits: bool = False

    @property
    def title(self) -> str:
        """The name as people read it: `mcp__mail__list_inbox` is "Mail: list inbox"."""
        *noun, verb = self.name.removeprefix("mcp__").split("__")
        words = re.sub("[_-]+", " ", ": ".join([*noun, verb]))
        return words[:1].upper() + words[1:]

    @cached_property
    def signature(self) -> Signature:
        """Build the signature on first use: a server has over a hundred tools, and most programs use a few."""
        return self.make_signature()

    @property
    def schema(self) -> Json:
        return self.signature.schema


@dataclass(frozen=True, slots=True)
class Resource:
    """A document with an address. Reading it calls a tool whose arguments are in the address."""

    uri: str
    """`{name}` is an argument without slashes, `{+name}` one that may contain slashes."""
    name: str
    description: str
    tool: str
    text: Callable[[Any], str]
    """Extract the document from the tool's result."""
    mime_type: str = "application/json"
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that every address has."""

    @property
    def is_template(self) -> bool:
        return "{" in self.uri

    def parse_arguments(self, uri: str) -> Json | None:
        """Return the arguments in `uri`, or None when it is not an address of this resource."""
        pieces = re.split(r"\{(\+?)(\w+)\}", self.uri)
        pattern = re.escape(pieces[0])
        for plus, name, after in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
            pattern += f"(?P<{name}>{'.+' if plus else '[^/]+'}){re.escape(after)}"
        match = re.fullmatch(pattern, uri, re.DOTALL)
        if match is None:
            return None
        return {**self.fixed, **{name: unquote(value) for name, value in match.groupdict().items()}}


@dataclass(frozen=True, slots=True)
class Prompt:
    """A message that a person sends to the model by its name, such as a slash command of the client."""

    name: str
    title: str
    description: str
    tools: Sequence[str]
    """The tools that it asks the model to use. Only a caller that may use all of them sees the prompt."""
    text: Callable[[Mapping[str, str]], str]
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Optional arguments and their descriptions."""


class Toolset:
    """A group of tools that share one contract."""

    def __init__(
        self,
        name: str,
        *,
        principal_kind: Kind | None,
        allows: Callable[[Principal, Tool], bool],
        render_error: Callable[[ShopfloorError, Request, int], Any],
        render_result: Callable[[Any, int], Any] = lambda value, _: value,
        error_text: Callable[[ShopfloorError, Request], str] = lambda error, _: error.message,
        argument_name: Callable[[str], str] = str,
        caller_argument: str | None = None,
        caller_description: str = "",
        served: bool = True,
        instructions: Callable[[Principal], str] = lambda _: "",
        narrow: Callable[[Principal, Tool], Mapping[str, Sequence[str]]] = lambda _, __: {},
        enveloped: bool = False,
        log_results: bool = True,
        for_people: bool = False,
        lists: Callable[[Principal, Tool], bool] = lambda _, __: True,
        summarize: Callable[[Any], Json] | None = None,
        time_budget: Callable[[Request], float | None] = lambda _: None,
        resources: Sequence[Resource] = (),
        prompts: Sequence[Prompt] = (),
    ) -> None:
        """Define the contract.

        `render_result` and `render_error` get the time at which the call finished as their last argument.
        `principal_kind` is what the operator acts as in this toolset. `enveloped` says that results already are in
        the envelope of the factory contract. `time_budget` is the contract's longest time for a call, in seconds.
        `instructions` returns what a model should know, for a caller that may use at least one of the tools.
        `narrow` returns the values of an argument that a caller is shown, where it may not use all of them.
        """
        self.name = name
        self.principal_kind = principal_kind
        self.allows = allows
        self.render_error = render_error
        self.render_result = render_result
        self.error_text = error_text
        self.argument_name = argument_name
        self.caller_argument = caller_argument
        self.caller_description = caller_description
        self.served = served and caller_argument is None
        self.instructions = instructions
        self.narrow = narrow
        self.enveloped = enveloped
        self.log_results = log_results
        self.for_people = for_people
        self.lists = lists
        self.summarize = summarize
        self.time_budget = time_budget
        self.resources = resources
        self.prompts = prompts
        self.tools: dict[str, Tool] = {}

    def tool(
        self,
        name: str,
        *,
        read_only: bool = False,
        destructive: bool = False,
        idempotent: bool = False,
        external: bool = False,
        secret: bool = False,
        stores_input: bool = False,
        admin: bool = False,
        approval: bool = False,
        critical: bool = False,
        listed: bool = True,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the decorated function.

        `external` marks a tool that waits on more than the store, `secret` one whose result is shown only once, `admin`
        one for the operator alone, `approval` one that lets a driven agent do something, and `critical` one whose
        failures always go to the operator. `stores_input` marks a tool that stores its arguments, so that the log has
        only their size. A tool that is not `listed` can be called but is not in the tool list.
        """

        def register(run: Callable[..., Any]) -> Callable[..., Any]:
            if not _TOOL_NAME.fullmatch(name) or any(_is_same_name(name, other) for other in self.tools):
                raise ValueError(f"tool name {name!r} must be unique, at most 40 characters, and match [A-Za-z0-9_-]")
            caller_field: dict[str, Any] = {}
            if self.caller_argument is not None:
                caller_field = {self.caller_argument: (Annotated[str, Field(description=self.caller_description)], ...)}
            self.tools[name] = Tool(
                name=name,
                description=inspect.cleandoc(run.__doc__ or ""),
                run=run,
                make_signature=partial(build_signature, name, run, self.argument_name, caller_field),
                read_only=read_only,
                destructive=destructive,
                idempotent=idempotent or read_only,
                external=external,
                secret=secret,
                stores_input=stores_input,
                admin=admin,
                approval=approval,
                critical=critical,
                # A tool that can wait says so by taking `resumed`; a flag beside it could contradict the function.
                waits=RESUMED in inspect.signature(run).parameters,
                listed=listed,
                elicits=ELICITED in inspect.signature(run).parameters,
            )
            return run

        return register

    def with_rule(self, allows: Callable[[Principal, Tool], bool]) -> Self:
        """Return the same toolset with another rule about who may call what."""
        changed = copy.copy(self)
        changed.allows = allows
        return changed


class Credential(NamedTuple):
    """What a caller presents: a bearer token, or nothing. `trusted` is a transport's own proof, made in this process.

    Without a token, a caller on this machine is the operator of a server that needs no credential yet; one with
    `remote` set never is. `attended` is false for a command that no person types: its standard input is not a terminal.
    """

    token: str | None = None
    trusted: Principal | None = None
    remote: bool = False
    address: str = ""
    attended: bool = True


REMOTE_KEY = "shopfloor.remote"
"""The key of an ASGI scope that says whether the request came from another machine. The gate sets it."""

DISCONNECTED_KEY = "shopfloor.disconnected"
"""The key of an ASGI scope that is set once the client has closed its connection. The server sets it."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call as it arrives from a transport: nothing in it has been checked."""

    toolset: Toolset
    tool_name: str
    input: Any
    credential: Credential
    transport: str
    claimed_name: str | None = None
    """The agent or user that the caller says it is (`agentId`)."""
    idempotency_key: str | None = None
    session: str | None = None
    progress: ReportProgress | None = None
    trace: Mapping[str, str] = field(default_factory=dict)
    """The caller's span, as W3C Trace Context headers."""
    is_abandoned: Callable[[], bool] = bool
    """Returns True once the caller has disconnected, as far as the transport knows."""
    envelope_error: ShopfloorError | None = None
    """The transport's error about fields around the input. The validate step raises it, so that it is logged."""
    elicit: Callable[[Elicitation], bool] | None = None
    """Show a question to the person at the client. It returns True if the client gets it with the call's result."""
    elicited: str | None = None
    """The answer from the client, in a call that continues the one that asked."""
    tool: Tool | None = field(init=False, repr=False, compare=False)
    """The requested tool, or None if the toolset does not have it."""

    def __post_init__(self) -> None:
        tool = self.toolset.tools.get(self.tool_name)
        object.__setattr__(self, "tool", tool)
        # A caller may send a token as the name of a tool or session, and both are in logs, metrics and error texts.
        if tool is None:
            name = self.tool_name if _TOOL_NAME.fullmatch(self.tool_name) else escape_unprintable(self.tool_name)
            object.__setattr__(self, "tool_name", redact(name))
        if self.session is not None:
            object.__setattr__(self, "session", redact(escape_unprintable(self.session)))


@dataclass(slots=True)
class CallRecord:
    """What the log and the metrics say about one call. Pipeline steps write to it; none makes a decision from it."""

    reference: int
    started_at: int
    finished_at: int = 0
    actor: Principal | None = None
    """The owner of the credential."""
    caller: Principal | None = None
    """The principal that the call acts as."""
    logged: bool = False
    open_entry_id: int | None = None
    """The log row of the invocation, while the call waits or works outside the store."""
    retries: int = 0
    replayed: bool = False
    notice: str | None = None
    result_size: int | None = None
    _input: str | None = None

    def log_input(self, request: Request) -> str:
        """Return the request's input as the log keeps it: redacted and bounded."""
        if self._input is None:
            stores_input = request.tool is not None and request.tool.stores_input
            shown = {"size": measure_json(request.input)} if stores_input else request.input
            self._input = format_context(shown)
        return self._input


class AuthenticatedRequest(NamedTuple):
    """A request whose credential has been checked."""

    request: Request
    record: CallRecord
    actor: Principal
    resumed: Waiting | None


class Context(NamedTuple):
    """A call that may run: the caller is allowed to use the tool, and the arguments are valid."""

    request: Request
    record: CallRecord
    caller: Principal
    tool: Tool
    arguments: Json
    resumed: Waiting | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Returned by a tool that has no result yet: it is run again when the topic is notified, or at the deadline."""

    topic: str
    until: int
    state: Any = None
    elicitation: Elicitation | None = None


@dataclass(frozen=True, slots=True)
class Elicitation:
    """A question that the person at the caller's client may answer there, while the call waits for the answer."""

    message: str
    options: tuple[str, ...]
    topic: str
    """The topic that is notified when the question is answered elsewhere."""
    until: int
    """When the question lapses."""
    arguments: Json
    """The arguments of the follow-up call of the same tool, which brings the answer or continues to wait."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """A call that waits, with its record so far."""

    waiting: Waiting
    record: CallRecord


@dataclass(frozen=True, slots=True)
class CallResult:
    """What goes back to the transport: the body in the toolset's own shape, and the error if there was one."""

    body: Any
    request: Request
    record: CallRecord
    error: ShopfloorError | None = None

    @property
    def text(self) -> str:
        """The body as a model reads it."""
        return self.body if isinstance(self.body, str) else format_body(self.body)


# Indented JSON costs a model 24 to 59 % more tokens than compact JSON. Clients that show or cut lines still need line
# breaks, so a large body has one line for each key and for each object in a list.
_ONE_LINE_CHARACTERS = 400


def format_body(body: Any) -> str:
    """Return JSON without spaces: on one line if short, otherwise with line breaks between keys and objects."""
    if not isinstance(body, dict):
        return to_json(body).decode()
    members = ",\n".join(f"{to_json(key).decode()}:{_format_value(value)}" for key, value in body.items())
    # Each newline is one character that the short form does not have.
    if len(members) + 2 - members.count("\n") <= _ONE_LINE_CHARACTERS:
        return to_json(body).decode()
    return "{\n" + members + "\n}"


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{to_json(key).decode()}:{_format_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list) and len(value) > 1 and isinstance(value[0], dict):
        return "[\n" + ",\n".join(to_json(each).decode() for each in value) + "\n]"
    return to_json(value).decode()


def success_envelope(data: Any, at: int) -> Json:
    """Return the envelope of the factory contract, which /mcp/execute uses for every toolset."""
    return {"success": True, "data": data, "timestamp": format_iso(at)}


def find_text(texts: Mapping[tuple[str, str], str], error: ShopfloorError) -> str | None:
    """Return a contract's own text for invalid input, by field and rule; `*` in the table stands for any of them."""
    if not isinstance(error, InvalidInput):
        return None
    field, rule = error.facts.get("field", ""), error.facts.get("rule", "")
    return texts.get((field, rule)) or texts.get((field, "*")) or texts.get(("*", rule))


def error_envelope(error: ShopfloorError, message: str, at: int) -> Json:
    """Return the factory contract's envelope of an error, with the message in the toolset's own words."""
    details = {key: value for key, value in error.facts.items() if key not in ("given", "rule")}
    if message != error.message and "problems" not in details and error.code == InvalidInput.code:
        details["problem"] = error.message  # for contracts with one sentence for many mistakes
    if error.hint:
        details["hint"] = error.hint
    return {
        "success": False,
        "error": {"code": error.code, "message": message, "details": details},
        "timestamp": format_iso(at),
    }


def to_envelope(result: CallResult) -> Json:
    """Put the result of any toolset into the factory contract's envelope."""
    request, at = result.request, result.record.finished_at
    if request.toolset.enveloped:
        body: Json = result.body
    elif result.error is None:
        body = success_envelope(result.body, at)
    else:
        body = error_envelope(result.error, request.toolset.error_text(result.error, request), at)
    return body if result.record.notice is None else {**body, "notice": result.record.notice}


def to_camel(name: str) -> str:
    """Turn to_agent_id into toAgentId."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _is_same_name(name: str, other: str) -> bool:
    return name.replace("-", "_") == other.replace("-", "_")
