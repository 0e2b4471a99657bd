"""token_issue, token_list, token_revoke and link_create, and what the log keeps of secrets."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from shopfloor.domain.redaction import REDACTED
from shopfloor.settings import Settings
from shopfloor.toolsets.desk import toolset
from tests.toolsets.desk.conftest import Desk
from tests.workbench import Workbench


def test_secrets_are_shown_once_and_never_logged(desk: Desk) -> None:
    user = desk("user_add", name="guest")
    desk("user_set_password", name="guest", password="correct horse battery")
    desk.answer("user_set_password", name="ghost", password="another horse battery")
    desk.answer("user_set_password", name="guest", password="third horse battery", extra=1)
    secrets = [
        "correct horse battery",
        "another horse battery",
        "third horse battery",
        user["token"],
        desk("agent_create", name="newcomer")["token"],
        desk("token_issue", agent="newcomer", lifetimeSeconds=60)["token"],
        desk("token_issue", user="guest")["token"],
        desk("link_create")["token"],
        desk("link_create", user="guest")["token"],
    ]
    entries = desk.shopfloor.log()
    log = json.dumps([[entry.context, desk.shopfloor.stack(entry)] for entry in entries])
    assert [secret for secret in secrets if secret in log] == []
    assert sum(f'"password":"{REDACTED}"' in entry.context for entry in entries) == 3


def test_a_revoked_token_stops_working_at_once(desk: Desk) -> None:
    token = desk("agent_create", name="newcomer")["token"]
    [listed] = desk("token_list")["tokens"]
    assert (listed["owner"], listed["state"]) == ("newcomer", "valid")
    assert desk("token_revoke", id=listed["id"])["revoked"]["state"] == "revoked"
    answer = desk.shopfloor.ask("mcp__agent__get_status", toolset="factory", token=token)
    assert answer.error is not None
    assert answer.error.code == "PERMISSION_DENIED"


def test_a_token_is_for_an_agent_or_a_user(desk: Desk) -> None:
    assert desk.expect_error("token_issue") == "Name either an agent or a user"
    assert desk.expect_error("token_issue", agent="builder", user="guest") == "Name either an agent or a user"


@pytest.mark.parametrize("days", [1, 30])
def test_lifetime_of_a_user_token_is_a_setting(settings: Settings, days: int) -> None:
    with Workbench(settings.model_copy(update={"user_token_days": days})) as shopfloor:
        desk = Desk(shopfloor)
        desk("user_add", name="guest")
        issued = desk("token_issue", user="guest")["issued"]
        [first, second] = desk("token_list")["tokens"]
        for token in (issued, first, second):
            created, expires = (datetime.fromisoformat(token[key]) for key in ("createdAt", "expiresAt"))
            assert (expires - created).days == days
        assert desk("agent_create", name="newcomer")["agent"]["id"] == "newcomer"
        assert desk("token_issue", agent="newcomer")["issued"]["expiresAt"] is None


def test_sign_in_link_is_for_the_operator_or_an_existing_user(desk: Desk) -> None:
    desk("user_add", name="guest")
    assert set(desk("link_create", user="guest")) == {"token", "expiresAt", "serverUrl"}
    assert desk.expect_error("link_create", user="ghost") == "User 'ghost' does not exist"


def test_page_sessions_and_the_operators_token_are_logged_without_their_secrets(desk: Desk) -> None:
    desk("user_add", name="guest")
    desk("user_set_password", name="guest", password="correct horse battery")
    link = desk("link_create", user="guest")["token"]
    secrets = [
        "correct horse battery",
        link,
        desk("link_redeem", token=link)["token"],
        desk("session_open", name="guest", password="correct horse battery")["token"],
        desk("token_issue_operator")["token"],
    ]
    assert desk("session_end", token=secrets[2]) == {"ended": True}
    assert desk.expect_error("link_redeem", token=link) == "This link has been used or has expired"
    assert desk.expect_error("session_open", name="guest", password="wrong") == "The name or the password is wrong"
    entries = desk.shopfloor.log()
    log = json.dumps([entry.context for entry in entries])
    assert [secret for secret in secrets if secret in log] == []
    tools = ["link_redeem", "session_open", "session_end", "token_issue_operator"]
    assert {entry.tool for entry in entries} >= set(tools)
    assert [tool for tool in tools if toolset.tools[tool].listed or not toolset.tools[tool].admin] == []
