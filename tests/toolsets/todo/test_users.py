"""Users on the command line: add, password, list, remove; and their lists."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from shopfloor.cli import app
from shopfloor.errors import ShopfloorError, Unauthenticated
from shopfloor.toolkit import Credential


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOPFLOOR_PROJECT", str(tmp_path))

    def run(*words: str, input: str = "") -> Any:
        result = CliRunner().invoke(app, list(words), input=input)
        if isinstance(result.exception, ShopfloorError):
            return result.exception.message
        assert result.exception is None, result.exception
        return json.loads(result.stdout) if "--json" in words else result.stdout

    return run


def test_user_is_added_and_removed(run, tmp_path):
    added = run("user", "add", "customer", "--json")
    assert added["token"].count(".") == 2
    assert run("user", "list", "--json") == [{"id": "customer", "role": "none"}]
    assert run("user", "password", "customer", input="correct horse battery\n") == (
        "customer can sign in with the new password\n"
    )
    assert run("user", "password", "customer", input="short\n") == "A password has 10 to 1000 characters"
    assert run("user", "password", "missing", input="correct horse battery\n") == "User 'missing' does not exist"
    assert run("user", "remove", "customer") == "customer is removed\n"
    assert run("user", "remove", "customer") == "User 'customer' was removed"
    assert run("user", "list", "--json") == []


def test_todo_commands_manage_a_list(run):
    run("todo", "add", "Buy milk", "--as", "customer", "--due", "2026-03-01T09:00", "--zone", "Europe/Berlin")
    run("todo", "add", "Call", "--as", "customer", "--priority", "0", "--description", "her")
    run("todo", "done", "1", "--as", "customer")
    rows = run("todo", "list", "--as", "customer", "--json")
    assert [(row["id"], row["completed"], row["priority"], row["dueAt"]) for row in rows] == [
        (2, False, 0, None),
        (1, True, 2, "2026-03-01T09:00+01:00"),
    ]
    assert "Call" in run("todo", "list", "--as", "customer", "--filter", "active")
    run("todo", "reopen", "1", "--as", "customer")
    run("todo", "change", "1", "--as", "customer", "--title", "Buy oat milk", "--due", "")
    deleted = run("todo", "delete", "1", "--as", "customer")
    assert deleted == "1 deleted: Buy oat milk\n  Undo: shopfloor todo restore 1 --as customer\n"
    assert "Buy oat milk" in run("todo", "deleted", "--as", "customer")
    assert run("todo", "restore", "1") == "Task 1 not found", "the list of local is another"
    assert run("todo", "restore", "1", "--as", "customer") == "1 restored: Buy oat milk\n"
    assert run("todo", "deleted", "--as", "customer") == "Nothing was deleted in the last 30 days.\n"
    assert run("todo", "list") == "Nothing here yet: shopfloor todo add TITLE\n"
    assert run("todo", "list", "--as", "guest") == "Nothing here yet: shopfloor todo add TITLE --as guest\n"


def test_token_of_a_removed_user_is_rejected(shopfloor):
    token = shopfloor.add_user("customer")["token"]
    identity = shopfloor.engine.identity
    assert identity.authenticate(Credential(token=token)).key == "user:customer"
    shopfloor.remove_user("customer")
    with pytest.raises(Unauthenticated):
        identity.authenticate(Credential(token=token))
    shopfloor.add_user("customer")
    with pytest.raises(Unauthenticated):
        identity.authenticate(Credential(token=token))


def test_a_user_exists_from_the_first_write(shopfloor):
    shopfloor.call("todo_direct", "list_tasks", {"user_id": "customer"})
    assert list(shopfloor.list_users()) == []
    shopfloor.call("todo_direct", "add_task", {"user_id": "customer", "title": "x"})
    assert [user["id"] for user in shopfloor.list_users()] == ["customer"]
    assert not shopfloor.engine.identity.needs_credential(), "a user without a token keeps the server open"


def test_the_default_profile_serves_todo(shopfloor):
    assert [toolset.name for toolset in shopfloor.engine.profile][:2] == ["factory", "todo"]
