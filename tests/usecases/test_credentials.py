"""Find credentials by name, and revoke tokens."""

from __future__ import annotations

import pytest

from shopfloor.errors import NotFound


@pytest.fixture
def database(tmp_path):
    """Use SQLite alone: tests/store compares the engines."""
    return f"sqlite://{tmp_path}/floor.db"


def test_name_means_the_agent_before_the_user(shopfloor):
    shopfloor.add_user("builder")
    assert shopfloor.get_credential("builder").trusted.key == "user:builder"
    shopfloor.create_agent("builder", "WORKER", issue_token=False)
    assert shopfloor.get_credential("builder").trusted.key == "agent:builder"
    shopfloor.retire_agent("builder")
    assert shopfloor.get_credential("builder").trusted.key == "user:builder"
    assert shopfloor.get_credential(None).trusted.key == "operator:operator"


def test_credential_for_an_unknown_name_is_rejected(shopfloor):
    with pytest.raises(NotFound, match="Agent or user 'ghost' not found"):
        shopfloor.get_credential("ghost")


def test_unknown_token_cannot_be_revoked(shopfloor):
    with pytest.raises(NotFound, match="Token 'nope' does not exist"):
        shopfloor.revoke_token("nope")


def test_revoking_a_token_again_changes_nothing(shopfloor):
    shopfloor.create_agent("builder", "WORKER")
    (issued,) = shopfloor.list_tokens()
    first = shopfloor.revoke_token(issued["id"])
    assert shopfloor.revoke_token(issued["id"]) == first
