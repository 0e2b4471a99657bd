"""The input fits the signature of the tool, or the caller is told what does not. (Schemas: tests/test_toolkit.py)"""

from __future__ import annotations

import pytest

from shopfloor.errors import InvalidInput
from shopfloor.pipeline import compose
from shopfloor.pipeline.validate import KEY_LIMIT, validate
from tests.workbench import bare_call


@pytest.fixture
def database(tmp_path):
    """What fits does not depend on the engine."""
    return f"sqlite://{tmp_path}/floor.db"


def walk(call):
    call.tool = call.toolset.tools[call.name]
    return compose([validate()], lambda call: call.arguments)(call)


def test_input_becomes_arguments():
    assert walk(bare_call("note", {"text": "x"})) == {"text": "x"}


def test_what_was_left_out_has_its_default():
    assert walk(bare_call("look")) == {"text": ""}


def test_what_does_not_fit_is_named():
    with pytest.raises(InvalidInput, match="'text' is required") as refused:
        walk(bare_call("note"))
    assert refused.value.facts == {
        "field": "text",
        "rule": "missing",
        "given": {},
        "problems": [{"field": "text", "rule": "missing", "problem": "'text' is required"}],
    }


@pytest.mark.parametrize("key", ["", "x" * (KEY_LIMIT + 1), "a\nb", "a\x00b", "\ud800"])
def test_a_key_has_up_to_255_printable_characters(floor, key):
    answer = floor.ask("note", {"text": "x"}, key=key)
    assert answer.body == {
        "error": "INVALID_INPUT",
        "message": "An idempotency key has 1 to 255 printable characters",
    }
    assert floor.traces() == []


@pytest.mark.parametrize("key", ["x", "x" * KEY_LIMIT, "8e03978e-40d5-43e8-bc93-6894a57f9324", "ключ 🔑"])
def test_any_other_key_will_do(floor, key):
    assert floor.ask("note", {"text": "x"}, key=key).error is None
