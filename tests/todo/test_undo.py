"""What the contracts do not speak of: undo, due dates, priorities, and the day on which nothing is kept any more."""

from __future__ import annotations

from typing import Any

import pytest

from shopfloor.domain.actors import OPERATOR
from shopfloor.domain.times import DAY
from shopfloor.domain.todos import KEPT, due, spell_due
from shopfloor.errors import InvalidInput
from shopfloor.usecases import todos


@pytest.fixture
def call(either_floor):
    def call(tool: str, caller: str = "customer", **given: Any) -> Any:
        return either_floor.call("personal", tool, given, caller)

    return call


def test_a_deletion_can_be_undone(either_floor, call):
    call("add", title="Buy milk", description="whole", priority=0)
    call("complete", taskId=1)
    before = call("show_list")["tasks"]
    either_floor.call("todo", "delete_task", {"task_id": 1}, "customer")
    assert call("show_list")["count"] == 0
    assert [task["id"] for task in call("show_deleted")["tasks"]] == [1]
    restored = call("restore", taskId=1)["task"]
    assert {**restored, "updatedAt": None} == {**before[0], "updatedAt": None}
    assert call("show_deleted")["tasks"] == []
    assert call("restore", taskId=1)["task"] == restored, "what was never deleted stays"


def test_nobody_else_can_undo_it(call):
    call("add", title="Buy milk")
    call("delete", taskId=1)
    refused = {"success": False, "error": "Task 1 not found", "code": "RESOURCE_NOT_FOUND"}
    assert call("restore", "guest", taskId=1) == refused
    assert call("show_deleted", "guest")["tasks"] == []


def test_after_30_days_it_is_gone_for_good(either_floor, call):
    for title in ("old", "young", "kept"):
        call("add", title=title)
    call("delete", taskId=1)
    call("delete", taskId=2)
    works = either_floor.floor.works
    works.store.write(
        lambda connection: connection.execute(
            "UPDATE task SET deleted_at = deleted_at - :age WHERE number = 1", age=KEPT + DAY
        )
    )
    assert call("restore", taskId=1)["success"] is False
    assert [task["id"] for task in call("show_deleted")["tasks"]] == [2]
    works.write(todos.purge, OPERATOR)
    assert works.store.read(lambda connection: connection.all("SELECT number FROM task ORDER BY number")) == [
        (2,),
        (3,),
    ]


def test_a_removed_user_is_forgotten_after_30_days_and_nobody_else(either_floor, call):
    for user in ("customer", "guest"):
        call("add", user, title="Mine")
        call("begin_turn", user, message="hello", history=1, seconds=1)
    either_floor.remove_user("customer")
    works = either_floor.floor.works
    works.write(todos.purge, OPERATOR)
    assert _left(works) == [("customer", 1, 1), ("guest", 1, 1)]
    works.store.write(
        lambda connection: connection.execute(
            "UPDATE person SET removed_at = removed_at - :age WHERE removed_at IS NOT NULL", age=KEPT + DAY
        )
    )
    works.write(todos.purge, OPERATOR)
    assert _left(works) == [("customer", 0, 0), ("guest", 1, 1)]  # the name alone stays, so that it stays removed


def test_a_user_who_comes_back_in_time_finds_the_list(either_floor, call):
    call("add", title="Mine")
    either_floor.remove_user("customer")
    either_floor.add_user("customer")
    assert call("show_list")["count"] == 1


def test_reopening_and_changing(call):
    call("add", title="Buy milk", dueAt="2026-07-01T09:00", dueZone="Europe/Berlin")
    call("complete", taskId=1)
    task = call("reopen", taskId=1)["task"]
    assert (task["completed"], task["completedAt"], task["dueAt"]) == (False, None, "2026-07-01T09:00+02:00")
    assert call("change", taskId=1, priority=4, dueAt="")["task"]["dueAt"] is None
    assert call("change", taskId=1)["error"] == "There is nothing to change"
    assert call("change", taskId=1, priority=5)["success"] is False


def test_the_personal_toolset_has_no_door_of_its_own(server):
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
def test_a_moment_is_kept_with_its_zone(text, zone, at, kept, spelled):
    assert due(text, zone) == (at * 1_000_000, kept)
    assert spell_due(at * 1_000_000, kept) == spelled


@pytest.mark.parametrize(
    ("text", "zone"),
    [("2026-03-01T09:00", None), ("soon", "UTC"), ("2026-03-01T09:00", "Mars/Base"), ("2026-13-01T09:00", "UTC"),
     ("2026-03-01T09:00", "../../etc/passwd"), ("9999-12-31T23:59", "America/New_York")],
)  # fmt: skip
def test_a_moment_without_a_zone_is_none(text, zone):
    with pytest.raises(InvalidInput, match="zone"):
        due(text, zone)


def _left(works: Any) -> list[Any]:
    return works.store.read(
        lambda connection: connection.all(
            "SELECT name, (SELECT count(*) FROM task WHERE board = name),"
            " (SELECT count(*) FROM chat_message WHERE owner = name) FROM person ORDER BY name"
        )
    )
