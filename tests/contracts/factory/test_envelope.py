"""The envelopes of results and errors."""

from __future__ import annotations

import re

from tests.workbench import DECISION, LOG_DECISION

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_success_has_success_data_and_timestamp(shopfloor):
    answer = shopfloor.call("factory", LOG_DECISION, DECISION)
    assert list(answer) == ["success", "data", "timestamp"]
    assert answer["success"] is True
    assert list(answer["data"]) == ["logId", "timestamp"]
    assert TIME.fullmatch(answer["timestamp"])


def test_error_has_success_error_and_timestamp(shopfloor):
    answer = shopfloor.call("factory", "mcp__nope__nope", {})
    assert TIME.fullmatch(answer["timestamp"])
    assert answer == {
        "success": False,
        "error": {
            "code": "TOOL_NOT_FOUND",
            "message": "Tool 'mcp__nope__nope' does not exist.",
            "details": {"tool": "mcp__nope__nope", "hint": "List the tools that you may call: tools/list"},
        },
        "timestamp": answer["timestamp"],
    }
