"""agent_create, agent_list, agent_show, agent_retire, agent_report_crash."""

from __future__ import annotations

from tests.toolsets.desk.conftest import Desk


def test_an_agent_is_created_with_a_token_that_works_at_once(desk: Desk) -> None:
    created = desk("agent_create", name="newcomer", supervisor="lead")
    assert {key: created["agent"][key] for key in ("id", "type", "state", "supervisor", "retiredAt")} == {
        "id": "newcomer",
        "type": "WORKER",
        "state": "IDLE",
        "supervisor": "lead",
        "retiredAt": None,
    }
    answer = desk.shopfloor.ask("mcp__agent__get_status", toolset="factory", token=created["token"])
    assert answer.body["data"]["id"] == "newcomer"
    assert desk("agent_create", name="tokenless", issueToken=False)["token"] is None


def test_a_retired_agent_is_still_listed_and_shown(desk: Desk) -> None:
    desk("agent_retire", name="tester")
    assert next(agent for agent in desk("agent_list")["agents"] if agent["id"] == "tester")["state"] == "RETIRED"
    assert desk("agent_show", name="tester")["agent"]["retiredAt"] is not None


def test_retired_agents_are_left_out_before_the_page_is_full(desk: Desk) -> None:
    desk("agent_retire", name="builder")
    active = desk("agent_list", active=True, limit=1)
    assert [agent["id"] for agent in active["agents"]] == ["lead"]
    assert [agent["id"] for agent in desk("agent_list", limit=1)["agents"]] == ["builder"]


def test_retiring_an_agent_again_changes_nothing(desk: Desk) -> None:
    first = desk("agent_retire", name="tester")
    assert desk("agent_retire", name="tester") == first
    events = [event for event in desk("floor_overview")["events"] if event["name"] == "agent.changed"]
    assert [event["data"]["change"] for event in events if event["data"]["agentId"] == "tester"][:2] != ["retired"] * 2


def test_the_third_crash_within_a_minute_marks_the_agent_as_failed(desk: Desk) -> None:
    states = [desk("agent_report_crash", name="tester")["agent"]["state"] for _ in range(3)]
    assert states == ["IDLE", "IDLE", "FAILED"]


def test_agents_cannot_call_the_desk(desk: Desk) -> None:
    token = desk("agent_create", name="boss", type="SUPERVISOR")["token"]
    answer = desk.shopfloor.ask("log_search", toolset="desk", token=token)
    assert answer.body["error"] == "Tool 'log_search' is not allowed for agent type 'SUPERVISOR'"
