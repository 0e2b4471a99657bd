"""todo_direct: every row of its contract, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

TOOLS = ["add_task", "list_tasks", "complete_task", "delete_task", "update_task"]
USER = {"type": "string", "description": "The authenticated user's ID"}

ADD: dict[str, Any] = {
    "name": "add_task",
    "description": "Create a new task for the user",
    "parameters": {
        "type": "object",
        "properties": {
            "user_id": USER,
            "title": {
                "type": "string",
                "description": "The task title (1-200 characters)",
                "minLength": 1,
                "maxLength": 200,
            },
            "description": {
                "type": "string",
                "description": "Optional task description (max 1000 characters)",
                "maxLength": 1000,
            },
        },
        "required": ["user_id", "title"],
    },
}
LIST: dict[str, Any] = {
    "name": "list_tasks",
    "description": "Retrieve user's tasks with optional status filter",
    "parameters": {
        "type": "object",
        "properties": {
            "user_id": USER,
            "status": {
                "type": "string",
                "description": "Filter tasks by status",
                "enum": ["all", "pending", "completed"],
                "default": "all",
            },
        },
        "required": ["user_id"],
    },
}
COMPLETE: dict[str, Any] = {
    "name": "complete_task",
    "description": "Mark a task as completed",
    "parameters": {
        "type": "object",
        "properties": {
            "user_id": USER,
            "task_id": {"type": "integer", "description": "The ID of the task to complete"},
        },
        "required": ["user_id", "task_id"],
    },
}
DELETE: dict[str, Any] = {
    "name": "delete_task",
    "description": "Permanently remove a task",
    "parameters": {
        "type": "object",
        "properties": {
            "user_id": USER,
            "task_id": {"type": "integer", "description": "The ID of the task to delete"},
        },
        "required": ["user_id", "task_id"],
    },
}
UPDATE: dict[str, Any] = {
    "name": "update_task",
    "description": "Modify a task's title or description",
    "parameters": {
        "type": "object",
        "properties": {
            "user_id": USER,
            "task_id": {"type": "integer", "description": "The ID of the task to update"},
            "title": {
                "type": "string",
                "description": "New task title (1-200 characters)",
                "minLength": 1,
                "maxLength": 200,
            },
            "description": {
                "type": "string",
                "description": "New task description (max 1000 characters)",
                "maxLength": 1000,
            },
        },
        "required": ["user_id", "task_id"],
    },
}


@pytest.fixture
def call(shopfloor):
    def call(tool: str, **given: Any) -> Any:
        return shopfloor.call("todo_direct", tool, {"user_id": "user-a", **given})

    return call


def test_schemas_match_the_contract(shopfloor):
    assert shopfloor.schemas("todo_direct") == [ADD, LIST, COMPLETE, DELETE, UPDATE]


def test_user_id_is_hidden_from_models(shopfloor):
    schemas = [each["parameters"] for each in shopfloor.schemas("todo_direct")]
    shown = [each["parameters"] for each in shopfloor.schemas("todo_direct", for_model=True)]
    assert [["user_id", *each["properties"]] for each in shown] == [list(each["properties"]) for each in schemas]
    assert [["user_id", *each["required"]] for each in shown] == [each["required"] for each in schemas]


def test_five_tools_return_the_shapes_of_the_contract(call):
    assert call("add_task", title="Buy milk") == {"task_id": 1, "status": "created", "title": "Buy milk"}
    assert call("add_task", title="Call", description="Bring card")["task_id"] == 2
    assert call("complete_task", task_id=1) == {"task_id": 1, "status": "completed", "title": "Buy milk"}
    assert call("list_tasks") == [
        {"id": 2, "title": "Call", "description": "Bring card", "completed": False},
        {"id": 1, "title": "Buy milk", "description": None, "completed": True},
    ]
    assert call("update_task", task_id=2, title="Call her") == {"task_id": 2, "status": "updated", "title": "Call her"}
    assert call("delete_task", task_id=2) == {"task_id": 2, "status": "deleted", "title": "Call her"}
    assert [task["id"] for task in call("list_tasks")] == [1]


def test_status_filters_the_list(call):
    call("add_task", title="open")
    call("add_task", title="done")
    call("complete_task", task_id=2)
    found = {
        status: [task["title"] for task in call("list_tasks", status=status)]
        for status in ("all", "pending", "completed")
    }
    assert found == {"all": ["done", "open"], "pending": ["open"], "completed": ["done"]}


def test_an_empty_list_is_an_empty_array(call):
    assert call("list_tasks") == []


def test_list_returns_every_task_without_pages(shopfloor, call):
    for number in range(1001):
        call("add_task", title=f"Task {number}")
    found = call("list_tasks")
    assert [task["title"] for task in found] == [f"Task {number}" for number in reversed(range(1001))]


def test_completing_twice_leaves_the_task_completed(call):
    call("add_task", title="Buy milk")
    assert call("complete_task", task_id=1) == call("complete_task", task_id=1)


def test_description_can_be_cleared_and_fields_change_independently(call):
    call("add_task", title="Buy milk", description="whole")
    call("update_task", task_id=1, description="")
    assert call("list_tasks") == [{"id": 1, "title": "Buy milk", "description": "", "completed": False}]


@pytest.mark.parametrize("title", ["", "   ", "\t\n", None])
def test_a_title_is_required(call, title):
    assert call("add_task", title=title) == {"error": "Title is required"}
    assert call("add_task") == {"error": "Title is required"}
    assert call("list_tasks") == []


@pytest.mark.parametrize("char", ["x", "é", "🦀", "字"])
def test_limits_are_counted_in_characters(call, char):
    assert call("add_task", title=char)["status"] == "created"
    assert call("add_task", title=char * 200)["title"] == char * 200
    assert call("add_task", title=char * 201) == {"error": "Title must be 200 characters or less"}
    assert call("add_task", title="ok", description=char * 1000)["status"] == "created"
    too_long = {"error": "Description must be 1000 characters or less"}
    assert call("add_task", title="ok", description=char * 1001) == too_long
    assert call("update_task", task_id=1, title=char * 201) == {"error": "Title must be 200 characters or less"}
    assert call("update_task", task_id=1, description=char * 1001) == too_long


def test_titles_are_stripped_before_they_are_checked(call):
    assert call("add_task", title=f"  {'x' * 200}\n")["title"] == "x" * 200
    assert call("update_task", task_id=1, title=" y ")["title"] == "y"
    assert call("update_task", task_id=1, title="  ") == {"error": "Title is required"}


@pytest.mark.parametrize("tool", ["complete_task", "delete_task", "update_task"])
def test_missing_task_is_not_found(call, tool):
    more = {"title": "x"} if tool == "update_task" else {}
    assert call(tool, task_id=999, **more) == {"error": "Task not found", "task_id": 999}


@pytest.mark.parametrize("task_id", [0, -1, True, "1", 1.0, None, [1], 2**63, -(2**70)])
@pytest.mark.parametrize("tool", ["complete_task", "delete_task", "update_task"])
def test_an_id_is_a_positive_integer(call, tool, task_id):
    more = {"title": "x"} if tool == "update_task" else {}
    assert call(tool, task_id=task_id, **more) == {"error": "Invalid task ID"}
    assert call(tool, **more) == {"error": "Invalid task ID"}


@pytest.mark.parametrize("status", ["done", "", "ALL", 1, True])
def test_a_status_is_one_of_three(call, status):
    assert call("list_tasks", status=status) == {"error": "Invalid status. Must be all, pending or completed"}


def test_update_without_a_change_is_rejected(call):
    call("add_task", title="Buy milk")
    nothing = {"error": "At least title or description required"}
    assert call("update_task", task_id=1) == nothing
    assert call("update_task", task_id=1, title=None, description=None) == nothing


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("user", ["", "  ", None, 5, True, ["user-a"]])
def test_user_id_is_required(shopfloor, tool, user):
    error = {"error": "user_id is required", "status": 400}
    assert shopfloor.call("todo_direct", tool, {"user_id": user, "title": "x", "task_id": 1}) == error
    assert shopfloor.call("todo_direct", tool, {"title": "x", "task_id": 1}) == error
    assert list(shopfloor.list_users()) == []


@pytest.mark.parametrize("user", [" a", "a\x00", "x" * 256, "\ud800", "a\u202eb"])
def test_invalid_user_id_is_rejected(shopfloor, user):
    assert shopfloor.call("todo_direct", "list_tasks", {"user_id": user})["status"] == 400


def test_user_id_must_match_the_authenticated_user(shopfloor):
    shopfloor.call("todo_direct", "add_task", {"user_id": "user-a", "title": "Buy milk"})
    claimed = shopfloor.call("todo_direct", "list_tasks", {"user_id": "user-a"}, caller="user-b")
    assert claimed == {"error": "user_id does not match the authenticated user"}


def test_unknown_arguments_are_rejected(call):
    mass = {"completed": True, "id": 7, "created_at": "2000-01-01T00:00:00Z"}
    for name, value in mass.items():
        assert call("add_task", title="x", **{name: value}) == {
            "error": f"Unknown argument '{name}'; allowed: user_id, title, description"
        }
    assert call("list_tasks") == []


@pytest.mark.parametrize(
    ("tool", "given", "text"),
    [
        ("add_task", {"title": "x"}, "Failed to create task"),
        ("list_tasks", {}, "Failed to list tasks"),
        ("complete_task", {"task_id": 1}, "Failed to complete task"),
        ("delete_task", {"task_id": 1}, "Failed to delete task"),
        ("update_task", {"task_id": 1, "title": "y"}, "Failed to update task"),
    ],
)
def test_store_failure_reports_no_details(shopfloor, call, tool, given, text):
    shopfloor.engine.database.store.write(lambda connection: connection.execute("DROP TABLE task"))
    assert call(tool, **given) == {"error": text}


@pytest.mark.parametrize("text", ["' OR 1=1 --", "'); DROP TABLE task;--", "%27", ":number", "{title}", "\\u0000"])
def test_text_is_stored_unchanged(call, text):
    call("add_task", title=text, description=text)
    assert call("list_tasks") == [{"id": 1, "title": text, "description": text, "completed": False}]


def test_calls_share_no_state(call):
    call("add_task", title="one")
    first = call("list_tasks")
    assert call("list_tasks") == first
    call("delete_task", task_id=1)
    assert call("complete_task", task_id=1) == {"error": "Task not found", "task_id": 1}


def test_no_transport_serves_the_toolset(server):
    assert server.user("customer").post("/mcp/todo_direct", json={}).status_code == 404
