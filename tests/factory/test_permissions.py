"""Three types of agents, every tool, every door: exactly the printed table, and our one addition."""

from __future__ import annotations

import json

import pytest

from shopfloor.toolsets import factory
from tests.factory.doors import Execute, Mcp, Python, served
from tests.factory.team import Team

PRINTED = {
    "SUPERVISOR": {"*"},
    "ORCHESTRATOR": {"mcp__mail__", "mcp__agent__", "mcp__system__", "mcp__task__", "mcp__epic__"},
    "WORKER": {
        "mcp__mail__",
        "mcp__agent__get_status",
        "mcp__agent__get_task",
        "mcp__agent__get_epic",
        "mcp__system__log_decision",
        "mcp__task__update_status",
        "mcp__task__add_comment",
        "mcp__task__claim",
    },
}
TOOLS = sorted(factory.toolset.tools)
CALLERS = {"SUPERVISOR": "sup", "ORCHESTRATOR": "orc", "WORKER": "w1"}
IMPOSSIBLE = {"thereIsNoSuchArgument": True}
"""Refused by every tool, but only after the question whether the caller may use it."""


def allowed(type: str, tool: str) -> bool:
    return any(
        words == "*" or tool == words or (words[-1] == "_" and tool.startswith(words)) for words in PRINTED[type]
    )


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    with Team(tmp_path_factory.mktemp("floor"), running=True) as team, served(team.shop) as url:
        tokens = {name: team.shop.issue_token(agent=name)[1] for name in CALLERS.values()}
        yield {
            "execute": lambda name: Execute(url, tokens[name]),
            "mcp": lambda name: Mcp(url, tokens[name]),
            "python": lambda name: Python(team.shop, name),
        }


@pytest.mark.parametrize("door", ["execute", "mcp", "python"])
@pytest.mark.parametrize("type", CALLERS)
def test_everybody_may_call_what_the_table_says_and_nothing_else(doors, type, door):
    caller = doors[door](CALLERS[type])
    for tool in TOOLS:
        error = caller.call(tool, IMPOSSIBLE)["error"]
        if allowed(type, tool):
            assert error["code"] == "INVALID_INPUT", tool
        else:
            assert error["code"] == "PERMISSION_DENIED"
            assert error["message"] == f"Tool '{tool}' is not allowed for agent type '{type}'"


@pytest.mark.parametrize("type", CALLERS)
def test_everybody_sees_only_what_they_may_call(doors, type):
    seen = sorted(tool.name for tool in doors["mcp"](CALLERS[type]).tools())
    assert [name for name in seen if name in TOOLS] == [tool for tool in TOOLS if allowed(type, tool)]
    assert set(seen) - set(TOOLS) == {"context_search", "read_file", "grep_codebase", "record_discovery"}


@pytest.mark.parametrize(("type", "most"), [("WORKER", 3000), ("SUPERVISOR", 8000)])
def test_the_list_of_tools_is_short(doors, type, most):
    listed = doors["mcp"](CALLERS[type]).tools()
    size = sum(len(tool.model_dump_json(by_alias=True, exclude_none=True)) for tool in listed)
    assert size / 4 <= most


def test_a_denied_call_is_in_the_log(doors):
    assert doors["python"]("w1").call("mcp__epic__create", {"title": "Mine"})["success"] is False
    log = doors["python"]("sup").call("mcp__system__list_decisions", {"agentId": "w1", "toolName": "mcp__epic__create"})
    newest, before = log["data"]["decisions"][:2]
    assert newest["decision"] == "Tool error: mcp__epic__create"
    assert newest["context"]["code"] == "PERMISSION_DENIED"
    assert before["decision"] == "Invoked tool: mcp__epic__create"
    assert before["context"] == {"title": "Mine"}


def test_further_roles_come_from_the_settings(tmp_path):
    roles = {"AUDITOR": {"allow": ["mcp__system__*"], "deny": ["mcp__system__log_decision"]}}
    with Team(tmp_path, roles=roles) as team:
        team.hire("auditor", "AUDITOR")
        assert team.call("auditor", "mcp__system__list_decisions")["count"] == 0
        assert team.refused("auditor", "mcp__system__log_decision", title="t", body="b")[0] == "PERMISSION_DENIED"
        assert team.refused("auditor", "mcp__agent__get_status")[0] == "PERMISSION_DENIED"


def test_mcp_gives_the_same_envelope_as_text_and_as_structured_content(doors):

    result = doors["mcp"]("w1").result("mcp__agent__get_status", {})
    assert json.loads(result.content[0].text) == result.structured_content
    assert set(result.structured_content) == {"success", "data", "timestamp"}
