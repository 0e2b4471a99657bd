"""Signatures: turn a tool's Python signature into a JSON Schema, and check what callers send against it."""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from shopfloor.domain.redaction import escape_unprintable
from shopfloor.errors import InvalidInput
from shopfloor.rule_texts import describe_rule

Json = dict[str, Any]

RESUMED = "resumed"
"""The parameter of a tool that can wait: the Waiting it returned before, or None on the first run."""

ELICITED = "elicited"
"""The parameter of a tool that can ask the person at the caller's client: the answer, or None."""

_MAX_DEPTH = 64
_INTEGER_BOUND = 2**63
_MAX_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments of a tool: a pydantic model, its JSON Schema, and parameter names by argument name."""

    model: type[BaseModel]
    schema: Json
    parameters: Mapping[str, str]
    optional: frozenset[str]

    def validate(self, input: Any) -> Json:
        """Return the arguments for the tool's function, or raise InvalidInput naming each wrong argument."""
        if not isinstance(input, Mapping):
            raise InvalidInput("input must be an object", rule="object_type", field="input")
        # Before pydantic: it would accept these values, and the engines would fail on them in different ways.
        for name, value in input.items():
            _check_storable(name, "input")
            _check_storable(value, name)
        # Models send null for arguments that they omit. An explicit null of an optional argument counts as absent.
        present = {k: v for k, v in input.items() if v is not None or k not in self.optional}
        try:
            checked = self.model.model_validate(present)
        except ValidationError as error:
            raise self._to_invalid_input(error) from None
        return {name: getattr(checked, name) for name in self.parameters}

    def _to_invalid_input(self, error: ValidationError) -> InvalidInput:
        items = error.errors(include_url=False, include_context=True)
        problems = [self._describe_problem(item) for item in items[:_MAX_PROBLEMS]]
        first = problems[0]
        message = "; ".join(problem["problem"] for problem in problems)
        given = items[0].get("input")
        return InvalidInput(message, field=first["field"], rule=first["rule"], given=given, problems=problems)

    def _describe_problem(self, item: Any) -> Json:
        field = escape_unprintable(".".join(str(part) for part in item["loc"]) or "input")
        rule = item["type"]
        if rule == "extra_forbidden":
            allowed = ", ".join(self.schema["properties"]) or "none"
            text = f"Unknown argument '{field}'; allowed: {allowed}"
        elif rule == "missing":
            text = f"'{field}' is required"
        else:
            text = f"'{field}' {describe_rule(item)}"
        return {"field": field, "rule": rule, "problem": text}


def build_signature(
    name: str,
    run: Callable[..., Any],
    argument_name: Callable[[str], str],
    caller_field: dict[str, Any],
) -> Signature:
    """Build the signature of a tool from its function; the first parameter is the unit of work and not an argument.

    `caller_field` is the argument that names the caller, if the toolset has one: it is in the schema, checked by the
    authorize step, and not passed to the tool. Such a schema allows additional properties, as its contract prints it.
    """
    hints = typing.get_type_hints(run, include_extras=True)
    parameters = [p for p in list(inspect.signature(run).parameters.values())[1:] if p.name not in (RESUMED, ELICITED)]
    fields: dict[str, Any] = {**caller_field}
    for parameter in parameters:
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    # Strict: "5" is not 5. A model that confuses types gets an error, not a guess.
    config = ConfigDict(extra="forbid", strict=True, alias_generator=argument_name)
    model = create_model(name, __config__=config, **fields)
    names = {parameter.name: argument_name(parameter.name) for parameter in parameters}
    optional = frozenset(names[key] for key, info in model.model_fields.items() if not info.is_required())
    return Signature(model, _build_schema(model, closed=not caller_field), names, optional)


def _build_schema(model: type[BaseModel], *, closed: bool) -> Json:
    """Build a JSON Schema that every client can read: one object, refs inlined, no titles and no null defaults."""
    whole = model.model_json_schema(by_alias=True)
    definitions = whole.pop("$defs", {})
    schema = _inline_refs(whole, definitions)
    schema.setdefault("properties", {})
    if not closed:
        schema.pop("additionalProperties", None)
    return typing.cast(Json, schema)


def _inline_refs(node: Any, definitions: Json) -> Any:
    if isinstance(node, list):
        return [_inline_refs(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[-1]]
        return _inline_refs({**target, **{k: v for k, v in node.items() if k != "$ref"}}, definitions)
    if "anyOf" in node:
        options = [option for option in node["anyOf"] if option != {"type": "null"}]
        # Some clients reject anyOf, and `null` says nothing that "not required" does not say.
        if len(options) == 1:
            rest = {k: v for k, v in node.items() if k != "anyOf"}
            return _inline_refs({**options[0], **rest}, definitions)
    plain: Json = {}
    for key, value in node.items():
        if key == "const":
            # Some clients support only enum.
            plain["enum"] = [value]
            continue
        if (key == "title" and isinstance(value, str)) or (key == "default" and value is None):
            continue
        if key == "properties":
            plain[key] = {name: _inline_refs(child, definitions) for name, child in value.items()}
        else:
            plain[key] = _inline_refs(value, definitions)
    return plain


def _check_storable(value: Any, field: object, depth: int = 1) -> None:
    """Reject what neither engine can store byte for byte: NUL, unpaired surrogates, integers beyond 64 bits."""
    if isinstance(value, str):
        if "\x00" in value:
            raise _not_storable("Text must not contain the NUL character (\\u0000)", field, "nul_character")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _not_storable("Text must not contain an unpaired surrogate", field, "surrogate") from None
    elif isinstance(value, float) and not math.isfinite(value):
        raise _not_storable("Numbers must be finite", field, "finite_number")
    elif isinstance(value, int) and not -_INTEGER_BOUND <= value < _INTEGER_BOUND:
        raise _not_storable("Integers must fit into 64 bits", field, "int_range")
    elif isinstance(value, Mapping | list):
        if depth >= _MAX_DEPTH:
            raise _not_storable(f"Input must not nest deeper than {_MAX_DEPTH} levels", field, "depth")
        for item in value:
            _check_storable(item, field, depth + 1)
        for item in value.values() if isinstance(value, Mapping) else ():
            _check_storable(item, field, depth + 1)


def _not_storable(message: str, field: object, rule: str) -> InvalidInput:
    # The name is the caller's own, and is escaped only here: escaping every name cost 3 µs per mail.
    return InvalidInput(message, field=escape_unprintable(str(field)), rule=rule)
