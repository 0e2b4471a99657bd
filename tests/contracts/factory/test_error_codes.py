"""The eight codes of the contract."""

from __future__ import annotations

import pytest

from shopfloor.errors import InvalidState, NotFound
from tests.workbench import LOG_DECISION, STATUS, busy


@pytest.fixture
def database(tmp_path):
    """Codes do not depend on the engine."""
    return f"sqlite://{tmp_path}/floor.db"


@pytest.mark.parametrize(
    ("code", "toolset", "tool", "input", "caller", "failures"),
    [
        ("PERMISSION_DENIED", "bench", "forbidden", {}, None, []),
        ("TOOL_NOT_FOUND", "factory", "mcp__nope__nope", {}, None, []),
        ("INVALID_INPUT", "factory", LOG_DECISION, {"title": 5}, None, []),
        ("AGENT_NOT_FOUND", "factory", STATUS, {}, "ghost", []),
        ("RESOURCE_NOT_FOUND", "bench", "note", {"text": "x"}, None, [NotFound("Mail mail-5 does not exist")]),
        ("INVALID_AGENT_STATE", "bench", "note", {"text": "x"}, None, [InvalidState("No current task")]),
        ("INTERNAL_ERROR", "bench", "note", {"text": "x"}, None, [RuntimeError("no")]),
        ("TRANSIENT_ERROR", "bench", "note", {"text": "x"}, None, [busy() for _ in range(4)]),
    ],
)
def test_each_kind_of_failure_has_its_code(shopfloor, code, toolset, tool, input, caller, failures):
    shopfloor.tools.failures = list(failures)
    answer = shopfloor.answer(toolset, tool, input, caller)
    assert answer.error is not None
    assert answer.error.code == code
    assert shopfloor.log()[-1].code == code
