"""Three types of agents may call exactly the tools of the printed table, over every transport."""

from __future__ import annotations

import json

import pytest

from shopfloor.toolsets import factory
from tests.toolsets.factory.team import Team
from tests.toolsets.factory.transports import Execute, Mcp, Python, serve_in_thread

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
"""Rejected by every tool, but only after the check of the caller's permission."""


def is_allowed(type: str, tool: str) -> bool:
    return any(
        words == "*" or tool == words or (words[-1] == "_" and tool.startswith(words)) for words in PRINTED[type]
    )


@pytest.fixture(scope="module")
def transports(tmp_path_factory):
    with Team(tmp_path_factory.mktemp("floor"), running=True) as team, serve_in_thread(team.shop) as url:
        tokens = {name: team.shop.issue_token(agent=name)["token"] for name in CALLERS.values()}
        yield {
            "execute": lambda name: Execute(url, tokens[name]),
            "mcp": lambda name: Mcp(url, tokens[name]),
            "python": lambda name: Python(team.shop, name),
        }


@pytest.mark.parametrize("transport", ["execute", "mcp", "python"])
@pytest.mark.parametrize("type", CALLERS)
def test_each_type_may_call_exactly_the_tools_of_the_table(transports, type, transport):
    caller = transports[transport](CALLERS[type])
    for tool in TOOLS:
        error = caller.call(tool, IMPOSSIBLE)["error"]
        if is_allowed(type, tool):
            assert error["code"] == "INVALID_INPUT", tool
        else:
            assert error["code"] == "PERMISSION_DENIED"
            assert error["message"] == f"Tool '{tool}' is not allowed for agent type '{type}'"


@pytest.mark.parametrize("type", CALLERS)
def test_each_type_sees_only_the_tools_it_may_call(transports, type):
    seen = sorted(tool.name for tool in transports["mcp"](CALLERS[type]).list_tools())
    assert [name for name in seen if name in TOOLS] == [tool for tool in TOOLS if is_allowed(type, tool)]
    assert set(seen) - set(TOOLS) == {"context_search", "read_file", "grep_codebase", "record_discovery"}


@pytest.mark.parametrize(("type", "max_tokens"), [("WORKER", 3000), ("SUPERVISOR", 8000)])
def test_tool_list_stays_within_its_token_limit(transports, type, max_tokens):
    listed = transports["mcp"](CALLERS[type]).list_tools()
    size = sum(len(tool.model_dump_json(by_alias=True, exclude_none=True)) for tool in listed)
    assert size / 4 <= max_tokens


def test_a_denied_call_is_in_the_log(transports):
    assert transports["python"]("w1").call("mcp__epic__create", {"title": "Mine"})["success"] is False
    log = transports["python"]("sup").call(
        "mcp__system__list_decisions", {"agentId": "w1", "toolName": "mcp__epic__create"}
    )
    newest, before = log["data"]["decisions"][:2]
    assert newest["decision"] == "Tool error: mcp__epic__create"
    assert newest["context"]["code"] == "PERMISSION_DENIED"
    assert before["decision"] == "Invoked tool: mcp__epic__create"
    assert before["context"] == {"title": "Mine"}


def test_settings_add_roles(tmp_path):
    roles = {"AUDITOR": {"allow": ["mcp__system__*"], "deny": ["mcp__system__log_decision"]}}
    with Team(tmp_path, roles=roles) as team:
        team.create_agent("auditor", "AUDITOR")
        assert team.call("auditor", "mcp__system__list_decisions")["count"] == 0
        assert team.expect_error("auditor", "mcp__system__log_decision", title="t", body="b")[0] == "PERMISSION_DENIED"
        assert team.expect_error("auditor", "mcp__agent__get_status")[0] == "PERMISSION_DENIED"


def test_mcp_returns_the_same_envelope_as_text_and_as_structured_content(transports):

    result = transports["mcp"]("w1").call_raw("mcp__agent__get_status", {})
    assert json.loads(result.content[0].text) == result.structured_content
    assert set(result.structured_content) == {"success", "data", "timestamp"}
