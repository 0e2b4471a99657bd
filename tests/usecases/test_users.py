"""Add and remove users."""

from __future__ import annotations

import pytest

from shopfloor.errors import InvalidInput, NotFound


@pytest.fixture
def database(tmp_path):
    """Use SQLite alone: tests/store compares the engines."""
    return f"sqlite://{tmp_path}/floor.db"


def test_user_cannot_be_added_twice(shopfloor):
    added = shopfloor.add_user("guest@example.com", role="viewer")
    assert (added["user"]["id"], added["user"]["role"], added["token"].count(".")) == ("guest@example.com", "viewer", 2)
    with pytest.raises(InvalidInput, match=r"User 'guest@example\.com' already exists"):
        shopfloor.add_user("guest@example.com")


@pytest.mark.parametrize("name", ["", " guest", "guest ", "x" * 256, "a\nb", "a\x1bb", "\u202eguest"])
def test_invalid_user_name_is_rejected(shopfloor, name):
    with pytest.raises(InvalidInput, match="A user's name has 1 to 255 printable characters"):
        shopfloor.add_user(name)


def test_unknown_user_gets_no_token(shopfloor):
    with pytest.raises(NotFound, match="User 'guest' does not exist"):
        shopfloor.issue_token(user="guest")


def test_removed_user_gets_no_token_and_can_be_added_again(shopfloor):
    shopfloor.add_user("guest")
    shopfloor.remove_user("guest")
    with pytest.raises(NotFound, match="User 'guest' was removed"):
        shopfloor.issue_token(user="guest")
    with pytest.raises(NotFound, match="Agent or user 'guest' not found"):
        shopfloor.get_credential("guest")
    assert shopfloor.add_user("guest")["user"]["removedAt"] is None
