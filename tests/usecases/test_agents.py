"""Agents come, work and go; users come."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from shopfloor.errors import AgentNotFound, InvalidInput, NotFound


@pytest.fixture
def database(tmp_path):
    """Plain rows: what both engines do with them is tested in tests/store."""
    return f"sqlite://{tmp_path}/floor.db"


def test_a_new_agent_is_idle_and_was_just_here(floor):
    agent, token = floor.hire("builder", "WORKER", "local", with_token=False)
    assert token is None
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
    assert floor.agent("builder") == agent


def test_every_floor_has_the_supervisor_local(floor):
    assert [(agent.name, agent.type) for agent in floor.agents()] == [("local", "SUPERVISOR")]


@pytest.mark.parametrize(
    "name", ["", "-builder", ".builder", "_builder", "a b", "a/b", "a'b", "ä", "x" * 65, "a\n", "a\x00"]
)
def test_a_name_that_cannot_be_written_everywhere_is_refused(floor, name):
    with pytest.raises(InvalidInput, match="An agent's name has 1 to 64 letters"):
        floor.hire(name, "WORKER", with_token=True)
    assert floor.floor.identity.needs_credential() is False


@pytest.mark.parametrize("name", ["a", "worker-123", "A.b_c-9", "7", "x" * 64])
def test_other_names_will_do(floor, name):
    assert floor.hire(name, "WORKER", with_token=False)[0].name == name


def test_a_name_is_taken_for_good(floor):
    floor.hire("builder", "WORKER", with_token=False)
    floor.retire("builder")
    with pytest.raises(InvalidInput, match="The name 'builder' is taken; choose another"):
        floor.hire("builder", "WORKER", with_token=False)


def test_an_unknown_type_is_refused(floor):
    with pytest.raises(InvalidInput, match="There is no agent type 'BOSS'"):
        floor.hire("builder", "BOSS", with_token=False)


@pytest.mark.parametrize("supervisor", ["ghost", "gone"])
def test_a_supervisor_must_be_there(floor, supervisor):
    floor.hire("gone", "SUPERVISOR", with_token=False)
    floor.retire("gone")
    with pytest.raises(AgentNotFound):
        floor.hire("builder", "WORKER", supervisor, with_token=False)


def test_who_retires_keeps_its_name_and_loses_its_tokens(floor):
    floor.hire("builder", "WORKER", with_token=True)
    floor.issue_token(agent="builder")
    retired = floor.retire("builder")
    assert retired.retired_at == retired.updated_at > retired.created_at
    assert [token.revoked_at is not None for token in floor.tokens()] == [True, True]
    assert floor.retire("builder") == retired


def test_local_cannot_retire(floor):
    with pytest.raises(InvalidInput, match="The built-in agent 'local' cannot retire"):
        floor.retire("local")


def test_who_is_not_there_cannot_retire_nor_get_a_token(floor):
    with pytest.raises(AgentNotFound, match="Agent 'ghost' does not exist"):
        floor.retire("ghost")
    with pytest.raises(AgentNotFound):
        floor.issue_token(agent="ghost")
    floor.hire("builder", "WORKER", with_token=False)
    floor.retire("builder")
    with pytest.raises(AgentNotFound):
        floor.issue_token(agent="builder")


def test_a_long_list_comes_whole_and_in_order(floor, monkeypatch):
    monkeypatch.setattr("shopfloor.serving.PAGE", 3)
    names = [f"agent-{number:02}" for number in range(10)]
    for name in reversed(names):
        floor.hire(name, "WORKER", with_token=True)
        floor.add_user(name)
    assert [agent.name for agent in floor.agents()] == [*names, "local"]
    assert [person.name for person in floor.users()] == names
    assert len(list(floor.tokens())) == 20


def test_a_user_is_added_once(floor):
    person, token = floor.add_user("guest@example.com")
    assert (person.name, token.count(".")) == ("guest@example.com", 2)
    with pytest.raises(InvalidInput, match=r"There is a user 'guest@example\.com' already"):
        floor.add_user("guest@example.com")


@pytest.mark.parametrize("name", ["", " guest", "guest ", "x" * 256, "a\nb", "a\x1bb", "\u202eguest", "\ud800"])
def test_a_user_has_a_name_that_can_be_shown(floor, name):
    with pytest.raises(InvalidInput, match="A user's name has 1 to 255 printable characters"):
        floor.add_user(name)


def test_a_user_who_is_not_there_gets_no_token(floor):
    with pytest.raises(NotFound, match="User 'guest' does not exist"):
        floor.issue_token(user="guest")


def test_a_removed_user_gets_no_token_and_can_come_back(floor):
    floor.add_user("guest")
    floor.remove_user("guest")
    with pytest.raises(NotFound, match="User 'guest' was removed"):
        floor.issue_token(user="guest")
    with pytest.raises(NotFound, match="There is no agent or user 'guest'"):
        floor.credential("guest")
    assert floor.add_user("guest")[0].removed_at is None


def test_a_name_alone_means_the_agent_before_the_user(floor):
    floor.add_user("builder")
    assert floor.credential("builder").trusted.key == "user:builder"
    floor.hire("builder", "WORKER", with_token=False)
    assert floor.credential("builder").trusted.key == "agent:builder"
    floor.retire("builder")
    assert floor.credential("builder").trusted.key == "user:builder"
    assert floor.credential(None).trusted.key == "operator:operator"


def test_a_name_that_nobody_has_is_refused_with_the_next_step(floor):
    with pytest.raises(NotFound, match="There is no agent or user 'ghost'") as refused:
        floor.credential("ghost")
    assert refused.value.hint == "Add one: shopfloor agent add ghost --type WORKER"


def test_a_token_that_is_not_there_cannot_be_revoked(floor):
    with pytest.raises(NotFound, match="Token 'nope' does not exist"):
        floor.revoke_token("nope")


def test_a_token_is_revoked_once(floor):
    floor.hire("builder", "WORKER", with_token=True)
    (issued,) = floor.tokens()
    first = floor.revoke_token(issued.id)
    assert floor.revoke_token(issued.id) == first
