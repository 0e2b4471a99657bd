from __future__ import annotations


def test_a_new_agent_gets_a_token_and_can_act(team):
    made = team.call("sup", "mcp__supervisor__create_agent", agentId="w3", type="WORKER", tmuxSessionName="w3-session")
    assert (made["id"], made["type"], made["supervisorId"], made["state"]) == ("w3", "WORKER", "sup", "IDLE")
    assert made["tmuxSessionName"] == "w3-session"
    assert team.call("w3", "mcp__agent__get_status")["tmuxSessionName"] == "w3-session"


def test_agent_needs_an_unused_name_a_known_type_and_an_existing_supervisor(team):
    assert team.expect_error("sup", "mcp__supervisor__create_agent", agentId="w1")[0] == "INVALID_INPUT"
    assert team.expect_error("sup", "mcp__supervisor__create_agent", agentId="a b")[0] == "INVALID_INPUT"
    assert team.expect_error("sup", "mcp__supervisor__create_agent", agentId="w3", type="BOSS")[0] == "INVALID_INPUT"
    code, _ = team.expect_error("sup", "mcp__supervisor__create_agent", agentId="w3", supervisorId="ghost")
    assert code == "AGENT_NOT_FOUND"


def test_agents_are_listed_by_name_in_pages(team):
    first = team.call("sup", "mcp__supervisor__list_agents", limit=3)
    rest = team.call("sup", "mcp__supervisor__list_agents", limit=3, cursor=first["nextCursor"])
    names = [agent["id"] for agent in [*first["agents"], *rest["agents"]]]
    assert names == ["local", "orc", "sup", "w1", "w2"]
    assert "nextCursor" not in rest
    assert team.call("sup", "mcp__supervisor__list_agents", type="WORKER")["count"] == 2


def test_a_retired_agent_cannot_act_and_is_not_listed(team):
    assert team.call("sup", "mcp__supervisor__retire_agent", agentId="w2")["retiredAt"] is not None
    assert team.call("sup", "mcp__supervisor__list_agents", type="WORKER")["count"] == 1
    assert team.expect_error("w2", "mcp__agent__get_status")[0] == "AGENT_NOT_FOUND"
    assert team.expect_error("sup", "mcp__supervisor__retire_agent", agentId="ghost")[0] == "AGENT_NOT_FOUND"


def test_the_state_of_an_agent_follows_from_what_it_does(team):
    assert team.call("w1", "mcp__agent__get_status")["state"] == "IDLE"
    team.call("w1", "mcp__task__claim", taskId=team.create_task())
    assert team.call("w1", "mcp__agent__get_status")["state"] == "BUSY"
    team.call("w1", "mcp__task__update_status", state="REVIEW")
    assert team.call("w1", "mcp__agent__get_status")["state"] == "IDLE"
