"""The principal a call acts as, unknown tools, and permissions."""

from __future__ import annotations

import pytest

from shopfloor import access
from shopfloor.domain.principals import Kind, Principal
from shopfloor.toolkit import Toolset
from tests.workbench import STATUS


@pytest.fixture
def database(tmp_path):
    """Use SQLite only: permissions do not depend on the engine."""
    return f"sqlite://{tmp_path}/floor.db"


def new_whoami_toolset(name, acts_as):
    toolset = Toolset(
        name,
        render_error=lambda error, *_: {"error": error.code, "message": error.message},
        principal_kind=acts_as,
        allows=lambda *_: True,
    )

    @toolset.tool("whoami", read_only=True)
    def whoami(uow):
        """Return the caller."""
        return uow.actor.key

    return toolset


@pytest.fixture
def workbench(open_workbench):
    return open_workbench(
        toolsets=[
            new_whoami_toolset("agents", Kind.AGENT),
            new_whoami_toolset("users", Kind.USER),
            new_whoami_toolset("anyone", None),
        ]
    )


def test_operator_without_a_named_principal_acts_as_the_built_in_agent_or_user(workbench):
    assert [workbench.call(toolset, "whoami") for toolset in ("agents", "users", "anyone")] == [
        "agent:local",
        "user:local",
        "operator:operator",
    ]


def test_operator_acts_as_the_named_principal_and_the_log_names_both(workbench):
    workbench.seed_agent("builder", "WORKER", with_token=False)
    assert [workbench.call(toolset, "whoami", {}, "builder") for toolset in ("agents", "users", "anyone")] == [
        "agent:builder",
        "user:builder",
        "agent:builder",
    ]
    assert {(entry.subject, entry.actor) for entry in workbench.log()} == {
        ("agent:builder", "operator:operator"),
        ("user:builder", "operator:operator"),
    }


@pytest.mark.parametrize("toolset", ["agents", "anyone"])
def test_operator_cannot_act_as_an_unknown_agent(workbench, toolset):
    assert workbench.call(toolset, "whoami", {}, "ghost") == {
        "error": "AGENT_NOT_FOUND",
        "message": "Agent 'ghost' does not exist.",
    }


def test_operator_cannot_act_as_a_retired_agent(workbench):
    workbench.seed_agent("builder", "WORKER", with_token=False)
    workbench.retire_agent("builder")
    assert workbench.call("agents", "whoami", {}, "builder")["error"] == "AGENT_NOT_FOUND"


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 256])
def test_operator_cannot_act_as_a_user_with_an_invalid_name(workbench, name):
    assert workbench.call("users", "whoami", {}, name)["error"] == "INVALID_INPUT"


def test_agent_may_name_itself_and_no_other_agent(workbench):
    _, token = workbench.seed_agent("builder", "WORKER", with_token=True)
    workbench.seed_agent("tester", "SUPERVISOR", with_token=False)
    asked = [
        workbench.ask("whoami", toolset="agents", token=token, claim=claim) for claim in (None, "builder", "tester")
    ]
    assert [answer.body for answer in asked] == [
        "agent:builder",
        "agent:builder",
        {"error": "PERMISSION_DENIED", "message": "The credential belongs to 'builder', not to 'tester'"},
    ]


def test_long_name_is_not_repeated_in_the_error(workbench):
    _, token = workbench.seed_agent("builder", "WORKER", with_token=True)
    message = workbench.ask("whoami", toolset="agents", token=token, claim="x" * 10_000).body["message"]
    assert message == f"The credential belongs to 'builder', not to '{'x' * 64}'"


def test_a_user_does_not_become_an_agent_of_the_same_name(workbench):
    token = workbench.seed_user("builder")
    workbench.seed_agent("builder", "SUPERVISOR", with_token=False)
    assert workbench.ask("whoami", toolset="agents", token=token, claim="builder").body == "user:builder"
    assert workbench.ask(STATUS, toolset="factory", token=token, claim="builder").body["error"] == {
        "code": "PERMISSION_DENIED",
        "message": f"Tool '{STATUS}' is not allowed for agent type 'USER'",
        "details": {"tool": STATUS, "role": "USER"},
    }


def test_unknown_tool_is_reported_as_unknown_also_without_permissions(workbench):
    token = workbench.seed_user("builder")
    assert workbench.ask("mcp__nope__nope", toolset="factory", token=token).body["error"] == {
        "code": "TOOL_NOT_FOUND",
        "message": "Tool 'mcp__nope__nope' does not exist.",
        "details": {"tool": "mcp__nope__nope", "hint": "List the tools that you may call: tools/list"},
    }


def test_principal_sees_exactly_the_tools_it_may_call(shopfloor):
    shopfloor.seed_agent("builder", "WORKER", with_token=False)
    toolsets = [shopfloor.engine.toolsets["factory"], shopfloor.engine.toolsets["bench"]]
    seen = {
        kind: [tool.name for toolset, tool in access.list_tools(principal, toolsets) if toolset.name == "bench"]
        for kind, principal in {
            "worker": Principal(Kind.AGENT, "builder", "WORKER"),
            "user": Principal(Kind.USER, "guest"),
        }.items()
    }
    assert seen == {kind: ["note", "look", "fetch", "await"] for kind in ("worker", "user")}
    assert access.list_tools(Principal(Kind.USER, "guest"), toolsets[:1]) == []
    assert access.list_tools(Principal(Kind.AGENT, "x", "NO_SUCH_TYPE"), toolsets[:1]) == []


def test_custom_type_has_the_permissions_of_the_settings(open_workbench):
    shopfloor = open_workbench(
        settings={"roles": {"AUDITOR": {"allow": ["mcp__agent__*"]}, "WORKER": {"deny": [STATUS]}}}
    )
    shopfloor.seed_agent("ann", "AUDITOR", with_token=False)
    shopfloor.seed_agent("builder", "WORKER", with_token=False)
    assert shopfloor.call("factory", STATUS, {}, "ann")["data"]["type"] == "AUDITOR"
    assert shopfloor.call("factory", STATUS, {}, "builder")["error"]["code"] == "PERMISSION_DENIED"
