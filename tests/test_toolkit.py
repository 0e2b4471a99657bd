"""The schema of a tool comes from its signature, and every client can read it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from shopfloor.app import TOOLSETS
from shopfloor.domain.times import SECOND
from shopfloor.errors import InvalidInput, NotFound
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import (
    CallRecord,
    CallResult,
    Credential,
    Request,
    Toolset,
    Waiting,
    success_envelope,
    to_camel,
    to_envelope,
)

Colour = Literal["red", "blue"]


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    title: str
    colour: Colour = "red"


def make_toolset(argument_name=str, **options: Any) -> Toolset:
    return Toolset(
        "test",
        render_error=lambda error, *_: {"error": error.message},
        principal_kind=None,
        allows=lambda *_: True,
        argument_name=argument_name,
        **options,
    )


def make_tool(run, argument_name=str, **hints):
    toolset = make_toolset(argument_name)
    toolset.tool("tool", **hints)(run)
    return toolset.tools["tool"]


def take_everything(
    uow: UnitOfWork,
    title: Annotated[str, Field(description="What it is called (1-200 characters)", min_length=1, max_length=200)],
    count: int,
    ratio: float = 1.0,
    done: bool = False,
    to_agent_id: str | None = None,
    labels: list[str] | None = None,
    colour: Colour | None = None,
    kind: Literal["a", "b"] = "a",
    items: Annotated[list[Item], Field(max_length=3)] = [],  # noqa: B006 - only the schema is used
    resumed: Waiting | None = None,
) -> None:
    """Do everything.

    And then some.
    """


TOOL = make_tool(take_everything, to_camel)
VALID = {"title": "x", "count": 1}


def validate(**given):
    return TOOL.signature.validate(given)


def catch_error(given, tool=TOOL):
    with pytest.raises(InvalidInput) as error:
        tool.signature.validate(given)
    return error.value


# --- the schema ---


def test_schema_is_the_signature_without_the_unit_of_work():
    assert TOOL.schema == {
        "type": "object",
        "additionalProperties": False,
        "required": ["title", "count"],
        "properties": {
            "title": {
                "type": "string",
                "minLength": 1,
                "maxLength": 200,
                "description": "What it is called (1-200 characters)",
            },
            "count": {"type": "integer"},
            "ratio": {"type": "number", "default": 1.0},
            "done": {"type": "boolean", "default": False},
            "toAgentId": {"type": "string"},
            "labels": {"type": "array", "items": {"type": "string"}},
            "colour": {"type": "string", "enum": ["red", "blue"]},
            "kind": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "items": {
                "type": "array",
                "maxItems": 3,
                "default": [],
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["title"],
                    "properties": {
                        "title": {"type": "string"},
                        "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                    },
                },
            },
        },
    }


def test_tool_without_arguments_takes_an_empty_object():
    def take_nothing(uow: UnitOfWork) -> None:
        """Do nothing."""

    assert make_tool(take_nothing).schema == {"type": "object", "additionalProperties": False, "properties": {}}


def test_argument_can_be_named_title():
    def take_title(uow: UnitOfWork, title: str) -> None:
        """Take a title."""

    assert make_tool(take_title).schema["properties"] == {"title": {"type": "string"}}


def test_description_is_the_docstring():
    assert TOOL.description == "Do everything.\n\nAnd then some."


def test_tool_has_its_hints():
    assert (TOOL.read_only, TOOL.destructive, TOOL.idempotent, TOOL.external, TOOL.waits) == (
        False,
        False,
        False,
        False,
        True,
    )
    reading = make_tool(lambda uow: None, read_only=True)
    assert (reading.read_only, reading.idempotent, reading.waits) == (True, True, False)


def walk_schema(schema):
    yield schema
    for child in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(child, dict | list):
            yield from walk_schema(child)


ALL_TOOLS = [(toolset, tool) for toolset in TOOLSETS.values() for tool in toolset.tools.values()]


@pytest.mark.parametrize(
    ("toolset", "tool"), ALL_TOOLS, ids=[f"{toolset.name}-{tool.name}" for toolset, tool in ALL_TOOLS]
)
def test_every_schema_is_simple_enough_for_all_clients(toolset, tool):
    assert tool.schema["type"] == "object"
    assert {"$defs", "anyOf", "oneOf", "allOf"}.isdisjoint(tool.schema)
    for node in (node for node in walk_schema(tool.schema) if isinstance(node, dict)):
        assert "$ref" not in node
        assert not isinstance(node.get("title"), str)
    printed = toolset.caller_argument is not None  # the contract of that one prints its schemas without this
    assert tool.schema.get("additionalProperties") is (None if printed else False)
    assert tool.description
    for name, parameter in tool.schema["properties"].items():
        assert parameter.get("description"), f"{tool.name} does not say what {name} is"


# --- names ---


@pytest.mark.parametrize("name", ["", "a b", "a.b", "ä", "x" * 41, "a/b", "a\n"])
def test_tool_name_that_clients_reject_is_rejected(name):
    with pytest.raises(ValueError, match="must be unique, at most 40 characters"):
        make_toolset().tool(name)(lambda uow: None)


@pytest.mark.parametrize("other", ["task-add", "task_add"])
def test_tool_names_that_differ_only_in_dashes_are_rejected(other):
    toolset = make_toolset()
    toolset.tool("task_add")(lambda uow: None)
    with pytest.raises(ValueError, match=r"'task.add' must be unique"):
        toolset.tool(other)(lambda uow: None)


@pytest.mark.parametrize(
    ("name", "camel"), [("to_agent_id", "toAgentId"), ("title", "title"), ("a_b_c", "aBC"), ("pr_url", "prUrl")]
)
def test_factory_arguments_are_camel_case(name, camel):
    assert to_camel(name) == camel


# --- the input ---


def test_arguments_have_their_python_names_and_defaults():
    assert validate(title="x", count=1, toAgentId="builder", colour="blue", items=[{"title": "t"}]) == {
        "title": "x",
        "count": 1,
        "ratio": 1.0,
        "done": False,
        "to_agent_id": "builder",
        "labels": None,
        "colour": "blue",
        "kind": "a",
        "items": [Item(title="t")],
    }


def test_null_for_an_optional_argument_means_absent():
    given = dict.fromkeys(("ratio", "done", "toAgentId", "labels", "colour", "kind", "items"))
    assert TOOL.signature.validate(VALID | given) == TOOL.signature.validate(VALID)


def test_null_for_a_required_argument_is_rejected():
    assert str(catch_error({"title": None, "count": 1})) == "'title' must be a string"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", True),
        ("count", "5"),
        ("count", 5.0),
        ("count", 5.5),
        ("count", []),
        ("title", 5),
        ("title", ["x"]),
        ("title", b"x"),
        ("ratio", "1.5"),
        ("ratio", True),
        ("done", 1),
        ("done", "true"),
        ("labels", "x"),
        ("labels", [1]),
        ("labels", {"a": "b"}),
        ("colour", "green"),
        ("kind", "c"),
        ("items", [{"title": "x", "more": 1}]),
        ("items", [{}]),
        ("items", [{"title": "x"}] * 4),
        ("toAgentId", 5),
    ],
)
def test_argument_types_are_not_coerced(name, value):
    error = catch_error(VALID | {name: value})
    assert error.facts["field"].partition(".")[0] == name
    assert error.code == "INVALID_INPUT"


def test_error_names_all_invalid_arguments():
    error = catch_error({"count": "5", "colour": "green"})
    assert str(error) == ("'title' is required; 'count' must be an integer; 'colour' must be one of red, blue")
    assert [problem["field"] for problem in error.facts["problems"]] == ["title", "count", "colour"]


@pytest.mark.parametrize("name", ["to_agent_id", "ToAgentId", "user_id", "waited", "work", "", "x" * 1000, "\x1b[2J"])
def test_unknown_argument_is_rejected_with_the_allowed_ones(name):
    message = str(catch_error(VALID | {name: "x"}))
    assert message.startswith("Unknown argument '")
    assert message.endswith("'; allowed: title, count, ratio, done, toAgentId, labels, colour, kind, items")
    assert message.isprintable()
    assert len(message) < 300


@pytest.mark.parametrize("given", [None, [], "x", 5, True, [("title", "x")]])
def test_input_must_be_an_object(given):
    assert str(catch_error(given)) == "input must be an object"


@pytest.mark.parametrize("value", ["a\x00b", "\ud800", "x\udfff"])
@pytest.mark.parametrize("place", ["title", "labels", "items", "key"])
def test_text_that_cannot_be_stored_is_rejected_at_any_depth(value, place):
    given: dict[str, Any] = {
        "title": VALID | {"title": value},
        "labels": VALID | {"labels": ["x", value]},
        "items": VALID | {"items": [{"title": value}]},
        "key": VALID | {value: 1},
    }[place]
    assert catch_error(given).facts["rule"] in ("nul_character", "surrogate")


@pytest.mark.parametrize("text", ["", "ä", "🔑", "\n\t\x01\x1b", "'; DROP TABLE mail;--", "\u202e", "\ufffe"])
def test_any_other_text_is_accepted_unchanged(text):
    assert validate(title=text or "x", count=1, toAgentId=text)["to_agent_id"] == text


@pytest.mark.parametrize(
    ("value", "fits"), [(2**63 - 1, True), (-(2**63), True), (2**63, False), (-(2**63) - 1, False)]
)
def test_integers_must_fit_into_64_bits(value, fits):
    if fits:
        assert validate(title="x", count=value)["count"] == value
    else:
        assert str(catch_error({"title": "x", "count": value})) == "Integers must fit into 64 bits"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_must_be_finite(value):
    assert str(catch_error(VALID | {"ratio": value})) == "Numbers must be finite"


@pytest.mark.parametrize("name", [1, None, (1, 2)])
def test_argument_name_must_be_text(name):
    with pytest.raises(InvalidInput):
        make_tool(take_everything).signature.validate({"title": "t", "count": 1, name: "x"})


def test_input_nests_at_most_64_levels():
    def take_anything(uow: UnitOfWork, value: Any) -> None:
        """Take anything."""

    def nest(levels):
        value: Any = 1
        for _ in range(levels):
            value = [value]
        return {"value": value}

    tool = make_tool(take_anything)
    assert tool.signature.validate(nest(63)) == nest(63)
    assert str(catch_error(nest(64), tool)) == "Input must not nest deeper than 64 levels"


@pytest.mark.parametrize(("length", "fits"), [(0, False), (1, True), (200, True), (201, False)])
@pytest.mark.parametrize("character", ["x", "🔑"])
def test_length_limits_count_characters(length, fits, character):
    given = VALID | {"title": character * length}
    if fits:
        assert TOOL.signature.validate(given)["title"] == character * length
    else:
        assert catch_error(given).facts["field"] == "title"


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(alphabet=st.characters(codec=None, exclude_categories=())),
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)
NAMES = st.sampled_from(["title", "count", "ratio", "done", "toAgentId", "labels", "colour", "kind", "items", "other"])


@given(JSON | st.dictionaries(NAMES, JSON))
def test_any_json_is_either_valid_or_rejected(given):
    with suppress(InvalidInput):
        assert set(TOOL.signature.validate(given)) == set(TOOL.signature.parameters)


# --- the result ---


def make_result(body, toolset=None, error=None, notice=None):
    request = Request(toolset or make_toolset(), "tool", {}, Credential(), "test")
    record = CallRecord(reference=7, started_at=0, finished_at=1_500 * SECOND, notice=notice)
    return CallResult(body, request, record, error)


def test_text_for_models_is_compact_json_or_plain_text():
    assert make_result({"a": ["ä"]}).text == '{"a":["ä"]}'
    assert make_result("plain\ntext").text == "plain\ntext"


def test_long_text_for_models_has_lines_between_keys_and_objects():
    body = {
        "success": True,
        "data": {"count": 2, "mails": [{"id": 1, "body": "x" * 300}, {"id": 2, "body": "y" * 300}]},
    }
    text = make_result(body).text
    assert json.loads(text) == body
    assert [line[:20] for line in text.splitlines()] == [
        "{",
        '"success":true,',
        '"data":{"count":2,"m',
        '{"id":1,"body":"xxxx',
        '{"id":2,"body":"yyyy',
        "]}",
        "}",
    ]
    # A hundredth more than without any line break.
    assert len(text) <= len(json.dumps(body, separators=(",", ":"))) * 1.02


def test_result_of_any_toolset_fits_the_factory_envelope():
    assert to_envelope(make_result([1, 2])) == {
        "success": True,
        "data": [1, 2],
        "timestamp": "1970-01-01T00:25:00.000Z",
    }


def test_error_in_the_envelope_has_the_text_of_its_toolset():
    toolset = make_toolset(error_text=lambda error, _: f"error: {error.message}")
    error = NotFound("No such task", hint="List them", task=5, given="secret", rule="x")
    assert to_envelope(make_result("error: …", toolset, error)) == {
        "success": False,
        "error": {
            "code": "RESOURCE_NOT_FOUND",
            "message": "error: No such task",
            "details": {"task": 5, "hint": "List them"},
        },
        "timestamp": "1970-01-01T00:25:00.000Z",
    }


def test_enveloped_result_is_unchanged_except_for_a_notice():
    toolset = make_toolset(enveloped=True)
    body = success_envelope({"a": 1}, 1_500 * SECOND)
    assert to_envelope(make_result(body, toolset)) == body
    assert to_envelope(make_result(body, toolset, notice="You have mail")) == {**body, "notice": "You have mail"}
