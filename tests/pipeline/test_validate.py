"""Input is checked against the signature of the tool. tests/test_toolkit.py tests the schemas."""

from __future__ import annotations

import pytest

from shopfloor.domain.principals import Kind, Principal
from shopfloor.errors import InvalidInput
from shopfloor.pipeline.validate import MAX_KEY_CHARS, validate
from shopfloor.toolkit import AuthenticatedRequest
from tests.workbench import bare_record, bare_request

BUILDER = Principal(Kind.AGENT, "builder", "WORKER")


@pytest.fixture
def database(tmp_path):
    """Use SQLite only: validation does not depend on the engine."""
    return f"sqlite://{tmp_path}/floor.db"


def run_step(request):
    call = AuthenticatedRequest(request, bare_record(), BUILDER, None)
    return validate(lambda context: context.arguments)(call, BUILDER, request.tool)


def test_input_becomes_arguments():
    assert run_step(bare_request("note", {"text": "x"})) == {"text": "x"}


def test_omitted_argument_has_its_default():
    assert run_step(bare_request("look")) == {"text": ""}


def test_invalid_argument_is_named():
    with pytest.raises(InvalidInput, match="'text' is required") as refused:
        run_step(bare_request("note"))
    assert refused.value.facts == {
        "field": "text",
        "rule": "missing",
        "given": {},
        "problems": [{"field": "text", "rule": "missing", "problem": "'text' is required"}],
    }


@pytest.mark.parametrize("key", ["", "x" * (MAX_KEY_CHARS + 1), "a\nb", "a\x00b", "\ud800"])
def test_invalid_idempotency_key_is_rejected(shopfloor, key):
    answer = shopfloor.ask("note", {"text": "x"}, key=key)
    assert answer.body == {
        "error": "INVALID_INPUT",
        "message": "idempotencyKey must have 1 to 255 printable characters",
    }
    assert shopfloor.traces() == []


@pytest.mark.parametrize("key", ["x", "x" * MAX_KEY_CHARS, "8e03978e-40d5-43e8-bc93-6894a57f9324", "ключ 🔑"])
def test_valid_idempotency_key_is_accepted(shopfloor, key):
    assert shopfloor.ask("note", {"text": "x"}, key=key).error is None
