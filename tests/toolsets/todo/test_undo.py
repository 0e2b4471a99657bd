"""Beyond the contracts: undo, due dates, priorities and permanent deletion."""

from __future__ import annotations

from typing import Any

import pytest

from shopfloor.domain.principals import OPERATOR
from shopfloor.domain.times import DAY
from shopfloor.domain.todos import DELETED_RETENTION, format_due, parse_due
from shopfloor.errors import InvalidInput
from shopfloor.usecases import todos


def purge_deleted(database, limit=1000):
    """Delete what is due in batches, and return the size of each."""
    sizes = []
    while size := database.write(lambda uow: todos.purge_deleted(uow, limit), OPERATOR):
        sizes.append(size)
    return sizes


@pytest.fixture
def call(server_on_each_engine):
    def call(tool: str, caller: str = "customer", **given: Any) -> Any:
        return server_on_each_engine.call("personal", tool, given, caller)

    return call


def test_a_deletion_can_be_undone(server_on_each_engine, call):
    call("add", title="Buy milk", description="whole", priority=0)
    call("complete", taskId=1)
    before = call("show_list")["tasks"]
    server_on_each_engine.call("todo", "delete_task", {"task_id": 1}, "customer")
    assert call("show_list")["count"] == 0
    assert [task["id"] for task in call("show_deleted")["tasks"]] == [1]
    restored = call("restore", taskId=1)["task"]
    assert {**restored, "updatedAt": None} == {**before[0], "updatedAt": None}
    assert call("show_deleted")["tasks"] == []
    assert call("restore", taskId=1)["task"] == restored, "what was never deleted stays"


def test_another_user_cannot_undo_a_deletion(call):
    call("add", title="Buy milk")
    call("delete", taskId=1)
    error = {"success": False, "error": "Task 1 not found", "code": "RESOURCE_NOT_FOUND"}
    assert call("restore", "guest", taskId=1) == error
    assert call("show_deleted", "guest")["tasks"] == []


def test_deletion_is_permanent_after_30_days(server_on_each_engine, call):
    for title in ("old", "young", "kept"):
        call("add", title=title)
    call("delete", taskId=1)
    call("delete", taskId=2)
    database = server_on_each_engine.engine.database
    database.store.write(
        lambda connection: connection.execute(
            "UPDATE task SET deleted_at = deleted_at - :age WHERE number = 1", age=DELETED_RETENTION + DAY
        )
    )
    assert call("restore", taskId=1)["success"] is False
    assert [task["id"] for task in call("show_deleted")["tasks"]] == [2]
    purge_deleted(database)
    assert database.store.read(lambda connection: connection.fetch_all("SELECT number FROM task ORDER BY number")) == [
        (2,),
        (3,),
    ]


def test_only_the_data_of_a_removed_user_is_deleted_after_30_days(server_on_each_engine, call):
    for user in ("customer", "guest"):
        call("add", user, title="Mine")
        call("begin_turn", user, message="hello", history=1, seconds=1)
    server_on_each_engine.remove_user("customer")
    database = server_on_each_engine.engine.database
    purge_deleted(database)
    assert _count_by_user(database) == [("customer", 1, 1), ("guest", 1, 1)]
    database.store.write(
        lambda connection: connection.execute(
            "UPDATE person SET removed_at = removed_at - :age WHERE removed_at IS NOT NULL", age=DELETED_RETENTION + DAY
        )
    )
    purge_deleted(database)
    assert _count_by_user(database) == [
        ("customer", 0, 0),
        ("guest", 1, 1),
    ]  # the name alone stays, so that it stays removed


def test_data_of_a_removed_user_is_deleted_in_batches(server_on_each_engine, call):
    for number in range(5):
        call("add", title=f"Task {number}")
    call("delete", taskId=2)
    call("begin_turn", message="hello", history=1, seconds=1)
    server_on_each_engine.remove_user("customer")
    database = server_on_each_engine.engine.database
    database.store.write(
        lambda connection: connection.execute(
            "UPDATE person SET removed_at = removed_at - :age WHERE removed_at IS NOT NULL", age=DELETED_RETENTION + DAY
        )
    )
    # 5 tasks, a message, a conversation and the user.
    assert purge_deleted(database, limit=3) == [3, 3, 2]
    assert _count_by_user(database) == [("customer", 0, 0)]


def test_user_restored_in_time_keeps_the_list(server_on_each_engine, call):
    call("add", title="Mine")
    server_on_each_engine.remove_user("customer")
    server_on_each_engine.add_user("customer")
    assert call("show_list")["count"] == 1


def test_task_is_reopened_and_edited(call):
    call("add", title="Buy milk", dueAt="2026-07-01T09:00", dueZone="Europe/Berlin")
    call("complete", taskId=1)
    task = call("reopen", taskId=1)["task"]
    assert (task["completed"], task["completedAt"], task["dueAt"]) == (False, None, "2026-07-01T09:00+02:00")
    assert call("change", taskId=1, priority=4, dueAt="")["task"]["dueAt"] is None
    assert call("change", taskId=1)["error"] == "There is nothing to change"
    assert call("change", taskId=1, priority=5)["success"] is False


def test_no_transport_serves_the_personal_toolset(server):
    customer = server.user("customer")
    assert customer.post("/mcp/personal", json={}).status_code == 404
    named = customer.post("/mcp/execute", json={"toolName": "show_list", "input": {}})
    assert named.status_code == 404


@pytest.mark.parametrize(
    ("text", "zone", "at", "kept", "spelled"),
    [
        ("2026-03-01T09:00", "Europe/Berlin", 1772352000, "Europe/Berlin", "2026-03-01T09:00+01:00"),
        ("2026-03-01T09:00+01:00", None, 1772352000, "+01:00", "2026-03-01T09:00+01:00"),
        ("2026-03-01T08:00Z", None, 1772352000, "UTC", "2026-03-01T08:00+00:00"),
        ("2026-03-01T08:00Z", "Europe/Berlin", 1772352000, "Europe/Berlin", "2026-03-01T09:00+01:00"),
        ("2026-03-01T08:00:00-03:30", None, 1772364600, "-03:30", "2026-03-01T08:00-03:30"),
        ("2026-03-01", "UTC", 1772323200, "UTC", "2026-03-01T00:00+00:00"),
    ],
)
def test_due_date_keeps_its_time_zone(text, zone, at, kept, spelled):
    assert parse_due(text, zone) == (at * 1_000_000, kept)
    assert format_due(at * 1_000_000, kept) == spelled


@pytest.mark.parametrize(
    ("text", "zone"),
    [("2026-03-01T09:00", None), ("soon", "UTC"), ("2026-03-01T09:00", "Mars/Base"), ("2026-13-01T09:00", "UTC"),
     ("2026-03-01T09:00", "../../etc/passwd"), ("9999-12-31T23:59", "America/New_York")],
)  # fmt: skip
def test_due_date_needs_a_valid_time_and_zone(text, zone):
    with pytest.raises(InvalidInput, match="zone"):
        parse_due(text, zone)


def _count_by_user(database: Any) -> list[Any]:
    return database.store.read(
        lambda connection: connection.fetch_all(
            "SELECT name, (SELECT count(*) FROM task WHERE board = name),"
            " (SELECT count(*) FROM chat_message WHERE owner = name) FROM person ORDER BY name"
        )
    )
