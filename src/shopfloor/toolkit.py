"""The words that every toolset is written in: Tool, Toolset, Call, Answer.

The signature of a tool is its schema. A toolset is a room of tools with one contract: how it spells
arguments, as whom its callers act, who may call what, how it answers and how it refuses.
"""

from __future__ import annotations

import inspect
import math
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Annotated, Any
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import to_json

from shopfloor.domain.actors import Kind, Principal
from shopfloor.domain.decisions import context_of
from shopfloor.domain.masks import mask
from shopfloor.domain.pages import PAGE, PAGE_LIMIT
from shopfloor.domain.times import iso
from shopfloor.errors import InvalidInput, ShopfloorError

Json = dict[str, Any]

Limit = Annotated[int | None, Field(description=f"1-{PAGE_LIMIT}, default {PAGE}", ge=1, le=PAGE_LIMIT)]
Cursor = Annotated[str | None, Field(description="nextCursor of the page before", max_length=200)]
"""What every list takes."""

WAITED = "waited"
"""The parameter of a tool that can wait: what it returned when it began to, or None."""

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
_INTEGER_LIMIT = 2**63
_PROBLEMS_NAMED = 5


@dataclass(frozen=True, slots=True)
class Form:
    """What a signature asks for."""

    model: type[BaseModel]
    schema: Json
    parameters: Mapping[str, str]
    optional: frozenset[str]


@dataclass(frozen=True)
class Tool:
    """A function with a name, a typed signature and a description."""

    name: str
    description: str
    run: Callable[..., Any]
    make_form: Callable[[], Form]
    """Called once, for the first who asks: a floor has many tools, and most programs use few of them."""
    read_only: bool
    destructive: bool
    idempotent: bool
    outside: bool
    waits: bool
    secret: bool
    listed: bool = True

    @cached_property
    def form(self) -> Form:
        return self.make_form()

    @property
    def schema(self) -> Json:
        return self.form.schema

    def validate(self, given: Any) -> Json:
        """The arguments for `run`, or InvalidInput that names the argument and what is allowed."""
        if not isinstance(given, Mapping):
            raise InvalidInput("input must be an object", rule="object_type", field="input")
        for name, value in given.items():
            _refuse_unstorable(name, "input")
            _refuse_unstorable(value, _presentable(str(name)))
        form = self.form
        present = {k: v for k, v in given.items() if v is not None or k not in form.optional}
        try:
            checked = form.model.model_validate(present)
        except ValidationError as error:
            raise _explained(error, form) from None
        return {name: getattr(checked, name) for name in form.parameters}


@dataclass(frozen=True, slots=True)
class Resource:
    """Something to read at an address. Reading it is a call of a tool, whose arguments stand in the address."""

    uri: str
    """`{name}` stands for an argument without slashes, `{+name}` for one that may have some."""
    name: str
    description: str
    tool: str
    text: Callable[[Any], str]
    """What of the tool's answer is to be read."""
    mime_type: str = "application/json"

    @property
    def is_template(self) -> bool:
        return "{" in self.uri

    def arguments(self, uri: str) -> Json | None:
        """The arguments that an address gives, or None when it is not one of this resource."""
        pieces = re.split(r"\{(\+?)(\w+)\}", self.uri)
        pattern = re.escape(pieces[0])
        for plus, name, after in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
            pattern += f"(?P<{name}>{'.+' if plus else '[^/]+'}){re.escape(after)}"
        found = re.fullmatch(pattern, uri, re.DOTALL)
        return None if found is None else {name: unquote(value) for name, value in found.groupdict().items()}


class Toolset:
    """A room of tools with one contract."""

    def __init__(
        self,
        name: str,
        *,
        answer: Callable[[Any, Call], Any],
        refuse: Callable[[ShopfloorError, Call], Any],
        acts_as: Kind | None,
        may: Callable[[Principal, str], bool],
        words: Callable[[ShopfloorError, Call], str] = lambda error, _: error.message,
        spelling: Callable[[str], str] = str,
        caller_argument: str | None = None,
        caller_description: str = "",
        served: bool = True,
        instructions: str = "",
        in_envelope: bool = False,
        keeps_answers: bool = True,
        summary: Callable[[Any], Json] | None = None,
        slow_after: Callable[[Call], float | None] = lambda _: None,
        resources: Sequence[Resource] = (),
    ) -> None:
        self.name = name
        self.answer = answer
        self.refuse = refuse
        self.acts_as = acts_as
        self.may = may
        self.words = words
        self.spelling = spelling
        self.caller_argument = caller_argument
        self.caller_description = caller_description
        self.served = served and caller_argument is None
        self.instructions = instructions
        self.in_envelope = in_envelope
        self.keeps_answers = keeps_answers
        self.summary = summary
        self.slow_after = slow_after
        self.resources = resources
        self.tools: dict[str, Tool] = {}

    def tool(
        self,
        name: str,
        *,
        read_only: bool = False,
        destructive: bool = False,
        idempotent: bool = False,
        outside: bool = False,
        secret: bool = False,
        listed: bool = True,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the decorated function.

        `outside` marks one that waits on more than the store, `secret` one whose answer is shown only once. One that
        is not `listed` stands behind a resource, and is not shown among the tools.
        """

        def register(run: Callable[..., Any]) -> Callable[..., Any]:
            if not _TOOL_NAME.fullmatch(name) or any(_same(name, other) for other in self.tools):
                raise ValueError(f"tool name {name!r} is taken, too long, or has other characters than A-Za-z0-9_-")
            self.tools[name] = Tool(
                name=name,
                description=inspect.cleandoc(run.__doc__ or ""),
                run=run,
                make_form=partial(self._form, name, run),
                read_only=read_only,
                destructive=destructive,
                idempotent=idempotent or read_only,
                outside=outside,
                secret=secret,
                waits=WAITED in inspect.signature(run).parameters,
                listed=listed,
            )
            return run

        return register

    def _form(self, name: str, run: Callable[..., Any]) -> Form:
        model, parameters = _model(name, run, self.spelling, self._caller_field())
        optional = (parameters[key] for key, info in model.model_fields.items() if not info.is_required())
        return Form(model, _schema(model, closed=self.caller_argument is None), parameters, frozenset(optional))

    def _caller_field(self) -> dict[str, Any]:
        """The argument that names the caller: in every schema, checked by permit, handed to no tool."""
        if self.caller_argument is None:
            return {}
        return {self.caller_argument: (Annotated[str, Field(description=self.caller_description)], ...)}


@dataclass(frozen=True, slots=True)
class Credential:
    """What a caller shows: a bearer token, or nothing. `trusted` is a door's own proof, made in this process."""

    token: str | None = None
    trusted: Principal | None = None


@dataclass(slots=True)
class Call:
    """Who calls which tool of which toolset with what, once."""

    toolset: Toolset
    name: str
    input: Any
    credential: Credential
    door: str
    claim: str | None = None
    key: str | None = None
    session: str | None = None
    progress: Callable[[float, float | None, str | None], None] | None = None
    trace: Mapping[str, str] = field(default_factory=dict)
    """The span that the call belongs to, in the words of W3C Trace Context."""
    fault: ShopfloorError | None = None
    """What the door found wrong around the call: said behind the log, as every refusal is."""
    # Filled in on the way:
    reference: int = 0
    started: int = 0
    actor: Principal | None = None
    caller: Principal | None = None
    tool: Tool | None = None
    arguments: Json = field(default_factory=dict)
    logged: bool = False
    opened: int | None = None
    waited: Waiting | None = None
    replayed: bool = False
    retries: int = 0
    notice: str | None = None
    finished: int = 0
    size: int | None = None
    _context: str | None = None

    def __post_init__(self) -> None:
        """What callers make up goes into logs and answers."""
        if self.name not in self.toolset.tools:
            self.name = mask(self.name if _TOOL_NAME.fullmatch(self.name) else _presentable(self.name))
        if self.session is not None:
            self.session = mask(_presentable(self.session))

    @property
    def context(self) -> str:
        """The input as the log keeps it."""
        if self._context is None:
            self._context = context_of(self.input)
        return self._context


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a tool returns that has nothing to say yet: it runs again when the topic stirs, or at the deadline."""

    topic: str
    until: int
    state: Any = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back to the door, in the toolset's own shape."""

    body: Any
    call: Call
    error: ShopfloorError | None = None

    @property
    def text(self) -> str:
        """The answer as a model reads it."""
        return self.body if isinstance(self.body, str) else to_json(self.body, indent=1).decode()


def envelope(data: Any, call: Call) -> Json:
    """The envelope of the factory contract, in which /mcp/execute answers for every toolset."""
    return {"success": True, "data": data, "timestamp": iso(call.finished)}


def refusal_envelope(error: ShopfloorError, message: str, call: Call) -> Json:
    """The same for a refusal, with the message in the words of the call's own toolset."""
    return refusal(error, message, call.finished)


def refusal(error: ShopfloorError, message: str, at: int) -> Json:
    """The same where there was no call yet."""
    details = {key: value for key, value in error.facts.items() if key not in ("given", "rule")}
    if message != error.message and "problems" not in details and error.code == InvalidInput.code:
        details["problem"] = error.message  # where a contract has one sentence for many mistakes
    if error.hint:
        details["hint"] = error.hint
    return {
        "success": False,
        "error": {"code": error.code, "message": message, "details": details},
        "timestamp": iso(at),
    }


def enveloped(answer: Answer) -> Json:
    """An answer of any toolset in that envelope."""
    call = answer.call
    if call.toolset.in_envelope:
        body: Json = answer.body
    elif answer.error is None:
        body = envelope(answer.body, call)
    else:
        body = refusal_envelope(answer.error, call.toolset.words(answer.error, call), call)
    return body if call.notice is None else {**body, "notice": call.notice}


def camel(name: str) -> str:
    """to_agent_id as toAgentId."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _presentable(name: str) -> str:
    """A name that a caller made up, as the log can keep it and a refusal can say it; no tool is called that."""
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name[:100])
    return shown if len(name) <= 100 else f"{shown}…"


def _same(name: str, other: str) -> bool:
    return name.replace("-", "_") == other.replace("-", "_")


def _model(
    name: str, run: Callable[..., Any], spelling: Callable[[str], str], caller: dict[str, Any]
) -> tuple[type[BaseModel], dict[str, str]]:
    hints = typing.get_type_hints(run, include_extras=True)
    parameters = [p for p in list(inspect.signature(run).parameters.values())[1:] if p.name != WAITED]
    fields: dict[str, Any] = {**caller}
    for parameter in parameters:
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    config = ConfigDict(extra="forbid", strict=True, alias_generator=spelling)
    model = create_model(name, __config__=config, **fields)
    return model, {parameter.name: spelling(parameter.name) for parameter in parameters}


def _schema(model: type[BaseModel], *, closed: bool) -> Json:
    """The JSON Schema that clients of every kind can read: one object, nothing referred to, no noise.

    An open one does not say that further arguments are refused; they are, all the same.
    """
    whole = model.model_json_schema(by_alias=True)
    definitions = whole.pop("$defs", {})
    schema = _plain(whole, definitions)
    schema.setdefault("properties", {})
    if not closed:
        schema.pop("additionalProperties", None)
    return typing.cast(Json, schema)


def _plain(node: Any, definitions: Json) -> Any:
    if isinstance(node, list):
        return [_plain(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[-1]]
        return _plain({**target, **{k: v for k, v in node.items() if k != "$ref"}}, definitions)
    if "anyOf" in node:
        options = [option for option in node["anyOf"] if option != {"type": "null"}]
        if len(options) == 1:
            rest = {k: v for k, v in node.items() if k != "anyOf"}
            return _plain({**options[0], **rest}, definitions)
    plain = {}
    for key, value in node.items():
        if (key == "title" and isinstance(value, str)) or (key == "default" and value is None):
            continue
        if key == "properties":
            plain[key] = {name: _plain(child, definitions) for name, child in value.items()}
        else:
            plain[key] = _plain(value, definitions)
    return plain


def _refuse_unstorable(value: Any, field: str, depth: int = 0) -> None:
    """Text with NUL or half a character, and integers beyond 64 bits, cannot be kept byte for byte."""
    if isinstance(value, str):
        if "\x00" in value:
            raise InvalidInput("Text must not contain the NUL character (\\u0000)", field=field, rule="nul_character")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidInput("Text must not contain half a surrogate pair", field=field, rule="surrogate") from None
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput("Numbers must be finite", field=field, rule="finite_number")
    elif isinstance(value, int) and not -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
        raise InvalidInput("Integers must fit into 64 bits", field=field, rule="int_range")
    elif isinstance(value, Mapping | list):
        if depth >= 63:
            raise InvalidInput("Input must not nest deeper than 64 levels", field=field, rule="depth")
        for item in value:
            _refuse_unstorable(item, field, depth + 1)
        for item in value.values() if isinstance(value, Mapping) else ():
            _refuse_unstorable(item, field, depth + 1)


def _explained(error: ValidationError, form: Form) -> InvalidInput:
    found = error.errors(include_url=False, include_context=True)
    problems = [_problem(item, form) for item in found[:_PROBLEMS_NAMED]]
    first = problems[0]
    message = "; ".join(problem["problem"] for problem in problems)
    given = found[0].get("input")
    return InvalidInput(message, field=first["field"], rule=first["rule"], given=given, problems=problems)


def _problem(item: Any, form: Form) -> Json:
    where = _presentable(".".join(str(part) for part in item["loc"]) or "input")
    rule = item["type"]
    if rule == "extra_forbidden":
        allowed = ", ".join(form.schema["properties"]) or "none"
        text = f"Unknown argument '{where}'; allowed: {allowed}"
    elif rule == "missing":
        text = f"'{where}' is required"
    else:
        text = f"'{where}': {item['msg'][:1].lower()}{item['msg'][1:]}".replace(" after validation", "")
    return {"field": where, "rule": rule, "problem": text}
