"""mcp__agent__get_status"""

from __future__ import annotations

import pytest

from shopfloor.domain.times import format_iso
from tests.workbench import STATUS


def test_the_status_has_the_nine_fields_of_the_contract(shopfloor):
    agent, _ = shopfloor.seed_agent("builder", "WORKER", with_token=False)
    data = shopfloor.call("factory", STATUS, {}, "builder")["data"]
    assert data == {
        "id": "builder",
        "type": "WORKER",
        "state": "IDLE",
        "currentEpicId": None,
        "currentTaskId": None,
        "tmuxSessionName": None,
        "lastActiveAt": format_iso(agent.last_active_at),
        "createdAt": format_iso(agent.created_at),
        "updatedAt": format_iso(agent.updated_at),
    }
    assert shopfloor.call("factory", STATUS, {"agentId": "tester"}, "builder")["error"]["code"] == "INVALID_INPUT"


def test_tasks_of_an_agent_are_listed_as_ids_and_make_it_busy(shopfloor):
    shopfloor.seed_agent("builder", "WORKER", with_token=False)
    shopfloor.execute(
        "UPDATE agent SET current_epic = 456, current_task = 789, tmux_session_name = 's' WHERE name = 'builder'"
    )
    data = shopfloor.call("factory", STATUS, {}, "builder")["data"]
    assert (data["state"], data["currentEpicId"], data["currentTaskId"], data["tmuxSessionName"]) == (
        "BUSY",
        "epic-456",
        "task-789",
        "s",
    )


@pytest.mark.parametrize("role", ["SUPERVISOR", "ORCHESTRATOR", "WORKER"])
def test_every_type_may_get_its_own_status(shopfloor, role):
    shopfloor.seed_agent("builder", role, with_token=False)
    assert shopfloor.call("factory", STATUS, {}, "builder")["data"]["type"] == role
