"""Who may call what: the table of the contract, tool by tool."""

from __future__ import annotations

import pytest

from shopfloor.app import TOOLSETS
from shopfloor.toolsets.factory.permissions import ADDITIONS, CONTRACT, Rights, compiled

EVERYBODY = {"SUPERVISOR", "ORCHESTRATOR", "WORKER"}
LEADERS = {"SUPERVISOR", "ORCHESTRATOR"}

# Every tool that the contract names, and one for each pattern that it names no tool for.
MAY_CALL = {
    "mcp__mail__list_inbox": EVERYBODY,
    "mcp__mail__read": EVERYBODY,
    "mcp__mail__send": EVERYBODY,
    "mcp__mail__reply": EVERYBODY,
    "mcp__agent__get_status": EVERYBODY,
    "mcp__agent__get_task": EVERYBODY,
    "mcp__agent__get_epic": EVERYBODY,
    "mcp__agent__anything_else": LEADERS,
    "mcp__system__log_decision": EVERYBODY,
    "mcp__system__anything_else": LEADERS,
    "mcp__task__update_status": EVERYBODY,
    "mcp__task__add_comment": EVERYBODY,
    "mcp__task__create": LEADERS,
    "mcp__task__assign": LEADERS,
    "mcp__task__anything_else": LEADERS,
    "mcp__epic__update_status": LEADERS,
    "mcp__epic__anything_else": LEADERS,
    "mcp__supervisor__anything": {"SUPERVISOR"},
    "mcp__orchestrator__anything": {"SUPERVISOR"},
    "mcp__unheard__of": {"SUPERVISOR"},
}


def test_each_type_may_what_the_contract_says():
    rights = compiled(list(MAY_CALL))
    assert {tool: {role for role in rights if tool in rights[role]} for tool in MAY_CALL} == MAY_CALL
    assert set(CONTRACT) == EVERYBODY


def test_what_is_denied_stays_denied_whatever_allows_it():
    names = ["mcp__task__create", "mcp__supervisor__stop", "mcp__mail__send"]
    generous: dict[str, Rights] = {
        "WORKER": {"allow": ["*"], "deny": []},
        "GUEST": {"allow": ["mcp__mail__*"], "deny": ["mcp__mail__send"]},
    }
    rights = compiled(names, generous)
    assert (set(rights["WORKER"]), set(rights["GUEST"])) == ({"mcp__mail__send"}, set())
    for role, patterns in ADDITIONS.items():
        assert set(patterns).isdisjoint(CONTRACT[role]["deny"])


@pytest.mark.parametrize("role", sorted(EVERYBODY))
def test_a_call_is_allowed_or_refused_as_the_table_says(floor, role):
    floor.hire("builder", role, with_token=False)
    tools = list(TOOLSETS["factory"].tools)
    rights = compiled(tools)
    for tool in tools:
        error = floor.call("factory", tool, {"no": "such argument"}, "builder")["error"]
        if tool in rights[role]:
            assert error["code"] == "INVALID_INPUT"
        else:
            assert error == {
                "code": "PERMISSION_DENIED",
                "message": f"Tool '{tool}' is not allowed for agent type '{role}'",
                "details": {"tool": tool, "role": role},
            }
