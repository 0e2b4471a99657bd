"""Create, list and retire agents."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from shopfloor.errors import AgentNotFound, InvalidInput
from tests.operator_access import read_agent


@pytest.fixture
def database(tmp_path):
    """Use SQLite alone: tests/store compares the engines."""
    return f"sqlite://{tmp_path}/floor.db"


def test_new_agent_is_idle_and_just_active(shopfloor):
    agent, _ = shopfloor.seed_agent("builder", "WORKER", "local")
    assert asdict(agent) == {
        "name": "builder",
        "type": "WORKER",
        "supervisor": "local",
        "current_epic": None,
        "current_task": None,
        "tmux_session_name": None,
        "last_active_at": agent.created_at,
        "created_at": agent.created_at,
        "updated_at": agent.created_at,
        "retired_at": None,
        "waiting_until": None,
        "failed_at": None,
        "retry_at": None,
        "failures": 0,
    }
    assert agent.state(agent.created_at) == "IDLE"
    assert read_agent(shopfloor, "builder") == agent


def test_every_workspace_has_the_supervisor_local(shopfloor):
    assert [(agent["id"], agent["type"]) for agent in shopfloor.list_agents()] == [("local", "SUPERVISOR")]


@pytest.mark.parametrize("name", ["", "-builder", ".builder", "_builder", "a b", "a/b", "a'b", "ä", "x" * 65, "a\n"])
def test_invalid_agent_name_is_rejected(shopfloor, name):
    with pytest.raises(InvalidInput, match="An agent's name has 1 to 64 letters"):
        shopfloor.create_agent(name, "WORKER")
    assert shopfloor.engine.identity.needs_credential() is False


@pytest.mark.parametrize("name", ["a", "worker-123", "A.b_c-9", "7", "x" * 64])
def test_valid_agent_name_is_accepted(shopfloor, name):
    assert shopfloor.create_agent(name, "WORKER", issue_token=False)["agent"]["id"] == name


def test_name_of_a_retired_agent_cannot_be_reused(shopfloor):
    shopfloor.create_agent("builder", "WORKER", issue_token=False)
    shopfloor.retire_agent("builder")
    with pytest.raises(InvalidInput, match="Agent 'builder' already exists; choose another name"):
        shopfloor.create_agent("builder", "WORKER", issue_token=False)


def test_unknown_agent_type_is_rejected(shopfloor):
    with pytest.raises(InvalidInput, match="Unknown agent type 'BOSS'"):
        shopfloor.create_agent("builder", "BOSS", issue_token=False)


@pytest.mark.parametrize("supervisor", ["ghost", "gone"])
def test_supervisor_must_exist_and_not_be_retired(shopfloor, supervisor):
    shopfloor.create_agent("gone", "SUPERVISOR", issue_token=False)
    shopfloor.retire_agent("gone")
    with pytest.raises(AgentNotFound):
        shopfloor.create_agent("builder", supervisor=supervisor)


def test_retiring_an_agent_revokes_its_tokens(shopfloor):
    shopfloor.create_agent("builder", "WORKER")
    shopfloor.issue_token(agent="builder")
    retired = shopfloor.retire_agent("builder")
    assert retired["state"] == "RETIRED"
    assert [token["state"] for token in shopfloor.list_tokens()] == ["revoked", "revoked"]
    assert shopfloor.retire_agent("builder") == retired


def test_local_cannot_retire(shopfloor):
    with pytest.raises(InvalidInput, match="The built-in agent 'local' cannot retire"):
        shopfloor.retire_agent("local")


def test_unknown_or_retired_agent_gets_no_token(shopfloor):
    with pytest.raises(AgentNotFound, match="Agent 'ghost' does not exist"):
        shopfloor.retire_agent("ghost")
    with pytest.raises(AgentNotFound):
        shopfloor.issue_token(agent="ghost")
    shopfloor.create_agent("builder", "WORKER", issue_token=False)
    shopfloor.retire_agent("builder")
    with pytest.raises(AgentNotFound):
        shopfloor.issue_token(agent="builder")


def test_lists_over_several_pages_are_complete_and_sorted(shopfloor):
    names = [f"agent-{number:03}" for number in range(201)]
    for name in reversed(names):
        shopfloor.seed_agent(name)
        shopfloor.seed_user(name)
    assert [agent["id"] for agent in shopfloor.list_agents()] == [*names, "local"]
    assert [user["id"] for user in shopfloor.list_users()] == names
    assert len(list(shopfloor.list_tokens())) == 201
