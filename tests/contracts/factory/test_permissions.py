"""Permissions: the table of the contract, tool by tool."""

from __future__ import annotations

import pytest

from shopfloor.app import TOOLSETS
from shopfloor.domain.principals import Kind, Principal
from shopfloor.toolsets.factory.permissions import ADDITIONS, CONTRACT, Permissions, Rights, extend_roles


def list_callable_tools(tools, more_roles=None):
    """Return the tools that each role may call."""
    roles = extend_roles(more_roles or {})
    permissions = Permissions(roles)
    return {
        role: {tool for tool in tools if permissions.allows(Principal(Kind.AGENT, "agent", role), tool)}
        for role in roles
    }


ALL_TYPES = {"SUPERVISOR", "ORCHESTRATOR", "WORKER"}
LEADERS = {"SUPERVISOR", "ORCHESTRATOR"}

# Every tool that the contract names, and one for each pattern that it names no tool for.
MAY_CALL = {
    "mcp__mail__list_inbox": ALL_TYPES,
    "mcp__mail__read": ALL_TYPES,
    "mcp__mail__send": ALL_TYPES,
    "mcp__mail__reply": ALL_TYPES,
    "mcp__agent__get_status": ALL_TYPES,
    "mcp__agent__get_task": ALL_TYPES,
    "mcp__agent__get_epic": ALL_TYPES,
    "mcp__agent__anything_else": LEADERS,
    "mcp__system__log_decision": ALL_TYPES,
    "mcp__system__anything_else": LEADERS,
    "mcp__task__update_status": ALL_TYPES,
    "mcp__task__add_comment": ALL_TYPES,
    "mcp__task__create": LEADERS,
    "mcp__task__assign": LEADERS,
    "mcp__task__anything_else": LEADERS,
    "mcp__epic__update_status": LEADERS,
    "mcp__epic__anything_else": LEADERS,
    "mcp__supervisor__anything": {"SUPERVISOR"},
    "mcp__orchestrator__anything": {"SUPERVISOR"},
    "mcp__unheard__of": {"SUPERVISOR"},
}


def test_each_type_has_the_permissions_of_the_contract():
    rights = list_callable_tools(list(MAY_CALL))
    assert {tool: {role for role in rights if tool in rights[role]} for tool in MAY_CALL} == MAY_CALL
    assert set(CONTRACT) == ALL_TYPES


def test_denied_tool_stays_denied_whatever_allows_it():
    names = ["mcp__task__create", "mcp__supervisor__stop", "mcp__mail__send"]
    generous: dict[str, Rights] = {
        "WORKER": {"allow": ["*"], "deny": []},
        "GUEST": {"allow": ["mcp__mail__*"], "deny": ["mcp__mail__send"]},
    }
    rights = list_callable_tools(names, generous)
    assert (set(rights["WORKER"]), set(rights["GUEST"])) == ({"mcp__mail__send"}, set())
    for role, patterns in ADDITIONS.items():
        assert set(patterns).isdisjoint(CONTRACT[role]["deny"])


@pytest.mark.parametrize("role", sorted(ALL_TYPES))
def test_call_is_allowed_or_denied_as_the_table_says(shopfloor, role):
    shopfloor.seed_agent("builder", role, with_token=False)
    tools = list(TOOLSETS["factory"].tools)
    rights = list_callable_tools(tools)
    for tool in tools:
        error = shopfloor.call("factory", tool, {"no": "such argument"}, "builder")["error"]
        if tool in rights[role]:
            assert error["code"] == "INVALID_INPUT"
        else:
            assert error == {
                "code": "PERMISSION_DENIED",
                "message": f"Tool '{tool}' is not allowed for agent type '{role}'",
                "details": {"tool": tool, "role": role},
            }
