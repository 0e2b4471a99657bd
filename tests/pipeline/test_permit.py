"""As whom a call acts, whether there is such a tool, and whether the caller may use it."""

from __future__ import annotations

import pytest

from shopfloor.domain.actors import Kind, Principal
from shopfloor.toolkit import Toolset
from tests.workbench import STATUS


@pytest.fixture
def database(tmp_path):
    """Who may what does not depend on the engine."""
    return f"sqlite://{tmp_path}/floor.db"


def whoami(name, acts_as):
    toolset = Toolset(
        name,
        answer=lambda value, call: value,
        refuse=lambda error, call: {"error": error.code, "message": error.message},
        acts_as=acts_as,
        may=lambda caller, tool: True,
    )

    @toolset.tool("whoami", read_only=True)
    def look(work):
        """Who calls."""
        return work.actor.key

    return toolset


@pytest.fixture
def rooms(opened):
    return opened(toolsets=[whoami("agents", Kind.AGENT), whoami("users", Kind.USER), whoami("anyone", None)])


def test_the_operator_who_names_nobody_is_the_built_in_agent_or_user(rooms):
    assert [rooms.call(room, "whoami") for room in ("agents", "users", "anyone")] == [
        "agent:local",
        "user:local",
        "operator:operator",
    ]


def test_the_operator_acts_as_whom_it_names_and_the_log_names_both(rooms):
    rooms.hire("builder", "WORKER", with_token=False)
    assert [rooms.call(room, "whoami", {}, "builder") for room in ("agents", "users", "anyone")] == [
        "agent:builder",
        "user:builder",
        "agent:builder",
    ]
    assert {(entry.subject, entry.actor) for entry in rooms.log()} == {
        ("agent:builder", "operator:operator"),
        ("user:builder", "operator:operator"),
    }


@pytest.mark.parametrize("room", ["agents", "anyone"])
def test_the_operator_cannot_act_as_an_agent_that_is_not_there(rooms, room):
    assert rooms.call(room, "whoami", {}, "ghost") == {
        "error": "AGENT_NOT_FOUND",
        "message": "Agent 'ghost' does not exist.",
    }


def test_the_operator_cannot_act_as_an_agent_that_has_retired(rooms):
    rooms.hire("builder", "WORKER", with_token=False)
    rooms.retire("builder")
    assert rooms.call("agents", "whoami", {}, "builder")["error"] == "AGENT_NOT_FOUND"


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 256])
def test_the_operator_cannot_act_as_a_user_that_cannot_be(rooms, name):
    assert rooms.call("users", "whoami", {}, name)["error"] == "INVALID_INPUT"


def test_an_agent_may_name_itself_and_nobody_else(rooms):
    _, token = rooms.hire("builder", "WORKER", with_token=True)
    rooms.hire("tester", "SUPERVISOR", with_token=False)
    asked = [rooms.ask("whoami", toolset="agents", token=token, claim=claim) for claim in (None, "builder", "tester")]
    assert [answer.body for answer in asked] == [
        "agent:builder",
        "agent:builder",
        {"error": "PERMISSION_DENIED", "message": "The credential belongs to 'builder', not to 'tester'"},
    ]


def test_a_long_claim_is_not_repeated(rooms):
    _, token = rooms.hire("builder", "WORKER", with_token=True)
    message = rooms.ask("whoami", toolset="agents", token=token, claim="x" * 10_000).body["message"]
    assert message == f"The credential belongs to 'builder', not to '{'x' * 64}'"


def test_a_user_does_not_become_an_agent_of_the_same_name(rooms):
    _, token = rooms.add_user("builder")
    rooms.hire("builder", "SUPERVISOR", with_token=False)
    assert rooms.ask("whoami", toolset="agents", token=token, claim="builder").body == "user:builder"
    assert rooms.ask(STATUS, toolset="factory", token=token, claim="builder").body["error"] == {
        "code": "PERMISSION_DENIED",
        "message": f"Tool '{STATUS}' is not allowed for agent type 'USER'",
        "details": {"tool": STATUS, "role": "USER"},
    }


def test_an_unknown_tool_is_said_to_be_unknown_also_to_those_who_may_nothing(rooms):
    _, token = rooms.add_user("builder")
    assert rooms.ask("mcp__nope__nope", toolset="factory", token=token).body["error"] == {
        "code": "TOOL_NOT_FOUND",
        "message": "Tool 'mcp__nope__nope' does not exist.",
        "details": {"tool": "mcp__nope__nope", "hint": "List the tools that you may call: tools/list"},
    }


def test_what_a_principal_sees_is_what_it_may_call(floor):
    floor.hire("builder", "WORKER", with_token=False)
    toolsets = [floor.floor.toolsets["factory"], floor.floor.toolsets["bench"]]
    seen = {
        kind: [tool.name for toolset, tool in floor.floor.tools_for(principal, toolsets) if toolset.name == "bench"]
        for kind, principal in {
            "worker": Principal(Kind.AGENT, "builder", "WORKER"),
            "user": Principal(Kind.USER, "guest"),
        }.items()
    }
    assert seen == {kind: ["note", "look", "fetch", "await"] for kind in ("worker", "user")}
    assert floor.floor.tools_for(Principal(Kind.USER, "guest"), toolsets[:1]) == []
    assert floor.floor.tools_for(Principal(Kind.AGENT, "x", "NO_SUCH_TYPE"), toolsets[:1]) == []


def test_a_type_of_ones_own_may_what_the_settings_say(opened):
    floor = opened(settings={"roles": {"AUDITOR": {"allow": ["mcp__agent__*"]}, "WORKER": {"deny": [STATUS]}}})
    floor.hire("ann", "AUDITOR", with_token=False)
    floor.hire("builder", "WORKER", with_token=False)
    assert floor.call("factory", STATUS, {}, "ann")["data"]["type"] == "AUDITOR"
    assert floor.call("factory", STATUS, {}, "builder")["error"]["code"] == "PERMISSION_DENIED"
