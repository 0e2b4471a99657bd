"""People and keys, and what each may do at the desk."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.desk.conftest import Desk
from tests.workbench import until


def test_a_key_is_shown_once_and_never_in_the_log(desk: Desk) -> None:
    hired = desk("key_hire", name="newcomer", type="WORKER")
    issued = desk("key_issue", agent="newcomer", hours=1)
    user = desk("key_add_user", name="guest", desk="reader")
    desk.settle()
    log = json.dumps([entry.context for entry in desk.floor.log()])
    for secret in (hired["token"], issued["token"], user["token"]):
        assert secret not in log
        assert (
            desk.floor.ask("mcp__agent__get_status", toolset="factory", token=secret).error is None
            or secret == user["token"]
        )
    assert {token["owner"] for token in desk("people_tokens")["tokens"]} == {"newcomer", "guest"}


def test_a_revoked_key_opens_nothing(desk: Desk) -> None:
    token = desk("key_hire", name="newcomer")["token"]
    id = next(token["id"] for token in desk("people_tokens")["tokens"] if token["owner"] == "newcomer")
    assert desk("key_revoke", id=id)["revoked"]["state"] == "revoked"
    answer = desk.floor.ask("mcp__agent__get_status", toolset="factory", token=token)
    assert answer.error is not None
    assert answer.error.code == "PERMISSION_DENIED"


def test_a_retired_agent_stays_in_the_list(desk: Desk) -> None:
    desk("key_retire", name="tester")
    assert next(agent for agent in desk("people_agents")["agents"] if agent["id"] == "tester")["retiredAt"]


def test_a_token_is_for_an_agent_or_a_user(desk: Desk) -> None:
    assert desk.refusal("key_issue") == "Name either an agent or a user"
    assert desk.refusal("key_issue", agent="builder", user="guest") == "Name either an agent or a user"


LOOKING = ["floor_overview", "log_search", "people_tokens", "board_epics", "inbox_waiting", "metrics", "run_list"]
HELPING = [("inbox_write", {"agentId": "builder", "subject": "s", "body": "b"}), ("epic_create", {"title": "e"})]
KEYS = [
    ("key_hire", {"name": "x"}),
    ("key_issue", {"agent": "builder"}),
    ("key_seat", {"name": "guest", "desk": "helper"}),
]


@pytest.mark.parametrize(
    ("right", "looks", "helps"), [("none", False, False), ("reader", True, False), ("helper", True, True)]
)
def test_users_do_at_the_desk_what_their_right_says(desk: Desk, right: str, looks: bool, helps: bool) -> None:
    token = desk("key_add_user", name="guest", desk=right)["token"]

    def may(tool: str, input: dict[str, Any]) -> bool:
        answer = desk.floor.ask(tool, input, toolset="desk", token=token)
        assert answer.error is None or answer.error.code == "PERMISSION_DENIED", answer.body
        return answer.error is None

    assert [may(tool, {}) for tool in LOOKING] == [looks] * len(LOOKING)
    assert [may(tool, input) for tool, input in HELPING] == [helps] * len(HELPING)
    assert [may(tool, input) for tool, input in KEYS] == [False] * len(KEYS)


def test_a_right_is_given_and_taken_at_once(desk: Desk) -> None:
    token = desk("key_add_user", name="guest")["token"]

    def looks() -> bool:
        return desk.floor.ask("floor_overview", toolset="desk", token=token).error is None

    assert not looks()
    desk("key_seat", name="guest", desk="reader")
    until(looks)
    desk("key_seat", name="guest", desk="none")
    until(lambda: not looks())


def test_no_agent_comes_to_the_desk(desk: Desk) -> None:
    token = desk("key_hire", name="boss", type="SUPERVISOR")["token"]
    answer = desk.floor.ask("log_search", toolset="desk", token=token)
    assert answer.body["error"] == "Tool 'log_search' is not allowed for agent type 'SUPERVISOR'"
