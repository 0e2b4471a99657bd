"""mcp__agent__get_status"""

from __future__ import annotations

import pytest

from shopfloor.domain.times import iso
from tests.workbench import STATUS


def test_the_status_has_the_nine_fields_of_the_contract(floor):
    agent, _ = floor.hire("builder", "WORKER", with_token=False)
    data = floor.call("factory", STATUS, {}, "builder")["data"]
    assert data == {
        "id": "builder",
        "type": "WORKER",
        "state": "IDLE",
        "currentEpicId": None,
        "currentTaskId": None,
        "tmuxSessionName": None,
        "lastActiveAt": iso(agent.last_active_at),
        "createdAt": iso(agent.created_at),
        "updatedAt": iso(agent.updated_at),
    }
    assert floor.call("factory", STATUS, {"agentId": "tester"}, "builder")["error"]["code"] == "INVALID_INPUT"


def test_what_an_agent_holds_is_spelled_as_ids_and_makes_it_busy(floor):
    floor.hire("builder", "WORKER", with_token=False)
    floor.execute(
        "UPDATE agent SET current_epic = 456, current_task = 789, tmux_session_name = 's' WHERE name = 'builder'"
    )
    data = floor.call("factory", STATUS, {}, "builder")["data"]
    assert (data["state"], data["currentEpicId"], data["currentTaskId"], data["tmuxSessionName"]) == (
        "BUSY",
        "epic-456",
        "task-789",
        "s",
    )


@pytest.mark.parametrize("role", ["SUPERVISOR", "ORCHESTRATOR", "WORKER"])
def test_every_type_may_ask_for_its_own(floor, role):
    floor.hire("builder", role, with_token=False)
    assert floor.call("factory", STATUS, {}, "builder")["data"]["type"] == role
