"""The signature of a tool is its schema, and the schema is what every client can read."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from shopfloor.app import TOOLSETS
from shopfloor.domain.times import SECOND
from shopfloor.errors import InvalidInput, NotFound
from shopfloor.repositories.work import Work
from shopfloor.settings import Settings
from shopfloor.toolkit import Answer, Call, Credential, Toolset, Waiting, camel, envelope, enveloped

Colour = Literal["red", "blue"]


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    title: str
    colour: Colour = "red"


def a_toolset(spelling=str, **manners: Any) -> Toolset:
    return Toolset(
        "test",
        answer=lambda value, call: value,
        refuse=lambda error, call: {"error": error.message},
        acts_as=None,
        may=lambda caller, tool: True,
        spelling=spelling,
        **manners,
    )


def made(run, spelling=str, **hints):
    toolset = a_toolset(spelling)
    toolset.tool("tool", **hints)(run)
    return toolset.tools["tool"]


def everything(
    work: Work,
    title: Annotated[str, Field(description="What it is called (1-200 characters)", min_length=1, max_length=200)],
    count: int,
    ratio: float = 1.0,
    done: bool = False,
    to_agent_id: str | None = None,
    labels: list[str] | None = None,
    colour: Colour | None = None,
    kind: Literal["a", "b"] = "a",
    items: Annotated[list[Item], Field(max_length=3)] = [],  # noqa: B006 - it is a schema
    waited: Waiting | None = None,
) -> None:
    """Does everything.

    And then some.
    """


TOOL = made(everything, camel)
VALID = {"title": "x", "count": 1}


def validate(**given):
    return TOOL.validate(given)


def refusal(given, tool=TOOL):
    with pytest.raises(InvalidInput) as refused:
        tool.validate(given)
    return refused.value


# --- the schema ---


def test_the_schema_is_the_signature_without_the_work_and_without_noise():
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


def test_a_tool_without_arguments_takes_an_empty_object():
    def nothing(work: Work) -> None:
        """Nothing."""

    assert made(nothing).schema == {"type": "object", "additionalProperties": False, "properties": {}}


def test_an_argument_may_be_called_title():
    def titled(work: Work, title: str) -> None:
        """Titled."""

    assert made(titled).schema["properties"] == {"title": {"type": "string"}}


def test_the_description_is_the_docstring():
    assert TOOL.description == "Does everything.\n\nAnd then some."


def test_a_tool_says_what_it_is():
    assert (TOOL.read_only, TOOL.destructive, TOOL.idempotent, TOOL.outside, TOOL.waits) == (
        False,
        False,
        False,
        False,
        True,
    )
    reading = made(lambda work: None, read_only=True)
    assert (reading.read_only, reading.idempotent, reading.waits) == (True, True, False)


def nodes(schema):
    yield schema
    for child in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(child, dict | list):
            yield from nodes(child)


ALL = [(toolset, tool) for toolset in TOOLSETS.values() for tool in toolset.tools.values()]


@pytest.mark.parametrize(("toolset", "tool"), ALL, ids=[f"{toolset.name}-{tool.name}" for toolset, tool in ALL])
def test_every_schema_of_ours_can_be_read_by_every_client(toolset, tool):
    assert tool.schema["type"] == "object"
    assert {"$defs", "anyOf", "oneOf", "allOf"}.isdisjoint(tool.schema)
    for node in nodes(tool.schema):
        if isinstance(node, dict):
            assert "$ref" not in node
            assert not isinstance(node.get("title"), str)
    if toolset.caller_argument is None:  # the contract of the other one prints its schemas without this
        assert tool.schema["additionalProperties"] is False
    assert tool.description
    for name, parameter in tool.schema["properties"].items():
        assert parameter.get("description"), f"{tool.name} does not say what {name} is"


def test_the_whole_list_of_tools_is_small():
    served = [tool for toolset, tool in ALL if toolset.name in Settings.model_fields["profile"].default]
    text = sum(len(str(tool.schema)) + len(tool.description) + len(tool.name) for tool in served)
    assert text / 4 < 8_000


# --- names ---


@pytest.mark.parametrize("name", ["", "a b", "a.b", "ä", "x" * 41, "a/b", "a\n"])
def test_a_name_that_some_client_refuses_is_refused_here(name):
    with pytest.raises(ValueError, match="is taken, too long, or has other characters"):
        a_toolset().tool(name)(lambda work: None)


@pytest.mark.parametrize("other", ["task-add", "task_add"])
def test_two_names_that_differ_only_in_dashes_are_one(other):
    toolset = a_toolset()
    toolset.tool("task_add")(lambda work: None)
    with pytest.raises(ValueError, match=r"'task.add' is taken"):
        toolset.tool(other)(lambda work: None)


@pytest.mark.parametrize(
    ("name", "spelled"), [("to_agent_id", "toAgentId"), ("title", "title"), ("a_b_c", "aBC"), ("pr_url", "prUrl")]
)
def test_the_factory_spells_in_camel_case(name, spelled):
    assert camel(name) == spelled


# --- the input ---


def test_arguments_come_under_their_own_names_with_their_defaults():
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


def test_nothing_given_for_an_optional_argument_counts_as_absent():
    given = dict.fromkeys(("ratio", "done", "toAgentId", "labels", "colour", "kind", "items"))
    assert TOOL.validate(VALID | given) == TOOL.validate(VALID)


def test_nothing_given_for_a_required_argument_is_refused():
    assert str(refusal({"title": None, "count": 1})) == "'title': input should be a valid string"


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
def test_one_type_is_not_taken_for_another(name, value):
    refused = refusal(VALID | {name: value})
    assert refused.facts["field"].partition(".")[0] == name
    assert refused.code == "INVALID_INPUT"


def test_the_refusal_names_everything_that_is_wrong():
    refused = refusal({"count": "5", "colour": "green"})
    assert str(refused) == (
        "'title' is required; 'count': input should be a valid integer; 'colour': input should be 'red' or 'blue'"
    )
    assert [problem["field"] for problem in refused.facts["problems"]] == ["title", "count", "colour"]


@pytest.mark.parametrize("name", ["to_agent_id", "ToAgentId", "user_id", "waited", "work", "", "x" * 1000, "\x1b[2J"])
def test_an_argument_that_is_not_there_is_refused_with_those_that_are(name):
    message = str(refusal(VALID | {name: "x"}))
    assert message.startswith("Unknown argument '")
    assert message.endswith("'; allowed: title, count, ratio, done, toAgentId, labels, colour, kind, items")
    assert message.isprintable()
    assert len(message) < 300


@pytest.mark.parametrize("given", [None, [], "x", 5, True, [("title", "x")]])
def test_input_is_an_object(given):
    assert str(refusal(given)) == "input must be an object"


@pytest.mark.parametrize("value", ["a\x00b", "\ud800", "x\udfff"])
@pytest.mark.parametrize("place", ["title", "labels", "items", "key"])
def test_text_that_cannot_be_stored_is_refused_wherever_it_is(value, place):
    given: dict[str, Any] = {
        "title": VALID | {"title": value},
        "labels": VALID | {"labels": ["x", value]},
        "items": VALID | {"items": [{"title": value}]},
        "key": VALID | {value: 1},
    }[place]
    assert refusal(given).facts["rule"] in ("nul_character", "surrogate")


@pytest.mark.parametrize("text", ["", "ä", "🔑", "\n\t\x01\x1b", "'; DROP TABLE mail;--", "\u202e", "\ufffe"])
def test_any_other_text_is_taken_byte_for_byte(text):
    assert validate(title=text or "x", count=1, toAgentId=text)["to_agent_id"] == text


@pytest.mark.parametrize(
    ("value", "fits"), [(2**63 - 1, True), (-(2**63), True), (2**63, False), (-(2**63) - 1, False)]
)
def test_an_integer_has_64_bits(value, fits):
    if fits:
        assert validate(title="x", count=value)["count"] == value
    else:
        assert str(refusal({"title": "x", "count": value})) == "Integers must fit into 64 bits"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_is_finite(value):
    assert str(refusal(VALID | {"ratio": value})) == "Numbers must be finite"


@pytest.mark.parametrize("name", [1, None, (1, 2)])
def test_a_name_that_is_no_text_is_refused(name):
    with pytest.raises(InvalidInput):
        made(everything).validate({"title": "t", "count": 1, name: "x"})


def test_input_nests_at_most_64_deep():
    def anything(work: Work, value: Any) -> None:
        """Anything."""

    def nested(levels):
        value: Any = 1
        for _ in range(levels):
            value = [value]
        return {"value": value}

    tool = made(anything)
    assert tool.validate(nested(63)) == nested(63)
    assert str(refusal(nested(64), tool)) == "Input must not nest deeper than 64 levels"


@pytest.mark.parametrize(("length", "fits"), [(0, False), (1, True), (200, True), (201, False)])
@pytest.mark.parametrize("character", ["x", "🔑"])
def test_limits_count_characters(length, fits, character):
    given = VALID | {"title": character * length}
    if fits:
        assert TOOL.validate(given)["title"] == character * length
    else:
        assert refusal(given).facts["field"] == "title"


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
def test_whatever_comes_is_either_valid_or_refused(given):
    with suppress(InvalidInput):
        assert set(TOOL.validate(given)) == set(TOOL.form.parameters)


# --- the answer ---


def answered(body, toolset=None, error=None, notice=None):
    call = Call(toolset or a_toolset(), "tool", {}, Credential(), "test", finished=1_500 * SECOND)
    call.notice = notice
    return Answer(body, call, error)


def test_a_model_reads_several_lines_of_json_or_plain_text():
    assert answered({"a": ["ä"]}).text == '{\n "a": [\n  "ä"\n ]\n}'
    assert answered("plain\ntext").text == "plain\ntext"


def test_any_toolset_can_be_put_into_the_factorys_envelope():
    assert enveloped(answered([1, 2])) == {"success": True, "data": [1, 2], "timestamp": "1970-01-01T00:25:00.000Z"}


def test_a_refusal_in_the_envelope_has_the_words_of_its_own_toolset():
    toolset = a_toolset(words=lambda error, call: f"error: {error.message}")
    error = NotFound("No such task", hint="List them", task=5, given="secret", rule="x")
    assert enveloped(answered("error: …", toolset, error)) == {
        "success": False,
        "error": {
            "code": "RESOURCE_NOT_FOUND",
            "message": "error: No such task",
            "details": {"task": 5, "hint": "List them"},
        },
        "timestamp": "1970-01-01T00:25:00.000Z",
    }


def test_what_is_in_the_envelope_already_stays_as_it_is_and_a_notice_stands_beside_it():
    toolset = a_toolset(in_envelope=True)
    body = envelope({"a": 1}, answered(None).call)
    assert enveloped(answered(body, toolset)) == body
    assert enveloped(answered(body, toolset, notice="You have mail")) == {**body, "notice": "You have mail"}
