"""user_add, user_list, user_set_role, user_set_password, user_remove, and what each desk role may call."""

from __future__ import annotations

from typing import Any

import pytest

from shopfloor.toolsets.desk import toolset
from tests.toolsets.desk.conftest import Desk
from tests.workbench import wait_until

READS = ["floor_overview", "log_search", "token_list", "board_epics", "inbox_list", "metrics", "run_list"]
EDITS = [("inbox_write", {"agentId": "builder", "subject": "s", "body": "b"}), ("epic_create", {"title": "e"})]


@pytest.mark.parametrize(
    ("role", "reads", "edits"), [("none", False, False), ("viewer", True, False), ("editor", True, True)]
)
def test_a_user_may_call_what_the_desk_role_allows(desk: Desk, role: str, reads: bool, edits: bool) -> None:
    token = desk("user_add", name="guest", role=role)["token"]

    def may(tool: str, input: dict[str, Any]) -> bool:
        answer = desk.shopfloor.ask(tool, input, toolset="desk", token=token)
        assert answer.error is None or answer.error.code == "PERMISSION_DENIED", answer.body
        return answer.error is None

    assert [may(tool, {}) for tool in READS] == [reads] * len(READS)
    assert [may(tool, input) for tool, input in EDITS] == [edits] * len(EDITS)


def test_only_the_operator_may_call_admin_tools(desk: Desk) -> None:
    admin = {tool.name for tool in toolset.tools.values() if tool.admin}
    assert admin >= {"agent_create", "agent_retire", "user_add", "user_set_role", "token_issue", "token_revoke"}
    token = desk("user_add", name="guest", role="editor")["token"]
    for name in sorted(admin):
        answer = desk.shopfloor.ask(name, {}, toolset="desk", token=token)
        assert answer.error is not None
        assert answer.body["error"] == f"Tool '{name}' is not allowed for agent type 'editor'"


def test_desk_role_takes_effect_immediately(desk: Desk) -> None:
    token = desk("user_add", name="guest")["token"]

    def reads() -> bool:
        return desk.shopfloor.ask("floor_overview", toolset="desk", token=token).error is None

    assert not reads()
    assert desk("user_set_role", name="guest", role="viewer")["user"]["role"] == "viewer"
    wait_until(reads)
    assert [user["role"] for user in desk("user_list")["users"]] == ["viewer"]
    desk("user_set_role", name="guest", role="none")
    wait_until(lambda: not reads())


def test_the_stored_desk_roles_have_not_been_renamed(desk: Desk) -> None:
    for role in ("none", "viewer", "editor"):
        desk("user_add", name=role, role=role)
    assert desk.shopfloor.rows("SELECT name, desk FROM person ORDER BY name") == [
        ("editor", "HELPER"),
        ("none", None),
        ("viewer", "READER"),
    ]


def test_a_removed_user_is_still_listed(desk: Desk) -> None:
    token = desk("user_add", name="guest", role="viewer")["token"]
    assert desk("user_remove", name="guest")["user"]["removedAt"] is not None
    assert desk("user_list")["users"][0]["removedAt"] is not None
    assert (
        desk.shopfloor.ask("floor_overview", toolset="desk", token=token)
        .body["error"]
        .startswith("The token is not valid")
    )
