"""todo: every row of its contract, byte for byte, through the official MCP client with a user's own token."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from shopfloor.domain.decisions import read_reference
from shopfloor.toolkit import Call, Credential

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
TITLE = "Title must be between 1 and 200 characters"
LOOK = "List the tasks with list_tasks to see their ids"


@pytest.fixture
def call(floor):
    """A call as the user customer; over MCP the same pipeline answers."""

    def call(tool: str, caller: str = "customer", **given: Any) -> Any:
        return floor.call("todo", tool, given, caller)

    return call


def over_mcp(server, user: str, talk: Callable[[ClientSession], Awaitable[Any]]) -> Any:
    token = server.user(user).headers["Authorization"]

    async def connect() -> Any:
        async with (
            httpx2.AsyncClient(headers={"Authorization": token}) as client,
            streamable_http_client(f"{server.url}/mcp/todo", http_client=client) as streams,
            ClientSession(*streams[:2]) as session,
        ):
            await session.initialize()
            return await talk(session)

    return anyio.run(connect)


def test_the_tools_over_mcp(server):
    async def talk(session: ClientSession) -> Any:
        return (await session.list_tools()).tools

    tools = {tool.name: tool for tool in over_mcp(server, "customer", talk)}
    assert list(tools) == ["add_task", "list_tasks", "complete_task", "delete_task", "update_task"]
    schemas = {name: tool.input_schema for name, tool in tools.items()}
    assert all("user_id" not in schema["properties"] for schema in schemas.values())
    assert {name: schema.get("required", []) for name, schema in schemas.items()} == {
        "add_task": ["title"],
        "list_tasks": [],
        "complete_task": ["task_id"],
        "delete_task": ["task_id"],
        "update_task": ["task_id"],
    }
    assert schemas["add_task"]["properties"]["title"]["maxLength"] == 200
    assert schemas["add_task"]["properties"]["description"]["maxLength"] == 1000
    assert schemas["list_tasks"]["properties"]["filter"]["enum"] == ["all", "active", "completed"]
    assert schemas["list_tasks"]["properties"]["filter"]["default"] == "all"
    assert tools["list_tasks"].annotations.read_only_hint
    assert tools["delete_task"].annotations.destructive_hint


def test_answers_and_refusals_over_mcp(server):
    async def talk(session: ClientSession) -> Any:
        return [
            await session.call_tool("add_task", {"title": "Buy milk"}),
            await session.call_tool("add_task", {"title": ""}),
            await session.call_tool("complete_task", {"task_id": 999}),
            await session.call_tool("list_tasks", {"user_id": "guest"}),
        ]

    added, empty, missing, spoofed = over_mcp(server, "customer", talk)
    assert (added.is_error, added.structured_content["success"]) == (False, True)
    assert [answer.is_error for answer in (empty, missing, spoofed)] == [True, True, True]
    assert empty.structured_content == {"success": False, "error": TITLE}
    assert missing.structured_content == {"success": False, "error": "Task 999 not found", "hint": LOOK}
    assert spoofed.structured_content["error"].startswith("Unknown argument 'user_id'")
    assert server.titles("customer") == ["Buy milk"]
    assert server.titles("guest") == []


def test_example_add(call):
    answer = call("add_task", title="Buy milk")
    assert TIME.fullmatch(answer["task"].pop("created_at"))
    assert answer == {
        "success": True,
        "task": {"id": 1, "title": "Buy milk", "description": None, "completed": False},
    }
    second = call("add_task", title="Finish project", description="Detailed analysis required")
    assert list(second["task"]) == ["id", "title", "description", "completed", "created_at"]
    assert second["task"]["description"] == "Detailed analysis required"


def test_example_list(call):
    assert call("list_tasks") == {"success": True, "tasks": [], "count": 0, "filter": "all"}
    call("add_task", title="Call dentist", description="Bring insurance card")
    call("complete_task", task_id=1)
    call("add_task", title="Buy milk")
    answer = call("list_tasks", filter="all")
    assert list(answer) == ["success", "tasks", "count", "filter"]
    assert [(task["id"], task["completed"]) for task in answer["tasks"]] == [(2, False), (1, True)]
    assert all(TIME.fullmatch(task.pop("created_at")) for task in answer["tasks"])
    assert answer["tasks"][1] == {
        "id": 1,
        "title": "Call dentist",
        "description": "Bring insurance card",
        "completed": True,
    }
    assert (answer["count"], answer["filter"]) == (2, "all")
    active, completed = call("list_tasks", filter="active"), call("list_tasks", filter="completed")
    assert ([task["id"] for task in active["tasks"]], active["count"], active["filter"]) == ([2], 1, "active")
    assert ([task["id"] for task in completed["tasks"]], completed["count"]) == ([1], 1)


def test_example_complete(call):
    call("add_task", title="Buy milk")
    first = call("complete_task", task_id=1)
    assert list(first) == ["success", "task"]
    assert list(first["task"]) == ["id", "title", "completed", "updated_at"]
    assert first["task"]["completed"] is True
    assert TIME.fullmatch(first["task"]["updated_at"])
    assert call("complete_task", task_id=1) == {**first, "message": "Task was already complete"}


def test_example_delete(call):
    call("add_task", title="Buy milk")
    assert call("delete_task", task_id=1) == {
        "success": True,
        "task_id": 1,
        "title": "Buy milk",
        "message": "Task deleted successfully",
    }
    assert call("delete_task", task_id=1)["error"] == "Task 1 not found"


@pytest.mark.parametrize(
    ("given", "title", "description"),
    [
        ({"title": "Buy milk and bread"}, "Buy milk and bread", None),
        ({"description": "Get whole grain bread"}, "Buy milk", "Get whole grain bread"),
        ({"title": "Buy milk and bread", "description": "Whole"}, "Buy milk and bread", "Whole"),
    ],
)
def test_example_update(call, given, title, description):
    call("add_task", title="Buy milk")
    answer = call("update_task", task_id=1, **given)
    assert TIME.fullmatch(answer["task"].pop("updated_at"))
    task = {"id": 1, "title": title, "description": description, "completed": False}
    assert answer == {"success": True, "task": task}


@pytest.mark.parametrize("title", ["", "  ", "x" * 201, None, 7])
def test_a_title_has_1_to_200_characters(call, title):
    refused = {"success": False, "error": TITLE}
    assert call("add_task", title=title) == refused
    assert call("add_task") == refused
    if title is not None:
        assert call("update_task", task_id=1, title=title) == refused


@pytest.mark.parametrize("char", ["x", "é", "🦀", "字"])
def test_edges_are_counted_in_characters(call, char):
    assert call("add_task", title=f" {char * 200} ")["task"]["title"] == char * 200
    assert call("add_task", title=char * 201)["error"] == TITLE
    assert call("add_task", title=char, description=char * 1000)["success"] is True
    too_long = {"success": False, "error": "Description must be 1000 characters or less"}
    assert call("add_task", title=char, description=char * 1001) == too_long
    assert call("update_task", task_id=1, description=char * 1001) == too_long


@pytest.mark.parametrize("filter", ["pending", "", "ALL", 1, True])
def test_a_filter_is_one_of_three(call, filter):
    refused = {"success": False, "error": "Invalid filter. Must be 'all', 'active', or 'completed'"}
    assert call("list_tasks", filter=filter) == refused


@pytest.mark.parametrize("task_id", [0, -1, True, "1", 1.0, None, 2**63])
@pytest.mark.parametrize("tool", ["complete_task", "delete_task", "update_task"])
def test_an_id_is_a_positive_integer(call, tool, task_id):
    more = {"title": "x"} if tool == "update_task" else {}
    refused = {"success": False, "error": "task_id must be a positive integer", "hint": LOOK}
    assert call(tool, task_id=task_id, **more) == refused
    assert call(tool, **more) == refused


@pytest.mark.parametrize("tool", ["complete_task", "delete_task", "update_task"])
def test_a_task_that_is_not_there(call, tool):
    more = {"title": "x"} if tool == "update_task" else {}
    assert call(tool, task_id=999, **more) == {"success": False, "error": "Task 999 not found", "hint": LOOK}


def test_an_update_changes_something(call):
    call("add_task", title="Buy milk")
    refused = {"success": False, "error": "Must provide at least one field to update (title or description)"}
    assert call("update_task", task_id=1) == refused
    assert call("update_task", task_id=1, title=None, description=None) == refused


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
def test_a_failing_store_says_no_more_than_that(floor, call, tool, given, text):
    busy = floor.floor.turn_away(Call(floor.floor.toolsets["todo"], tool, given, Credential(), "mcp")).body
    assert busy == {"success": False, "error": text, "hint": "Try again in a second"}
    floor.floor.works.store.write(lambda connection: connection.execute("DROP TABLE task"))
    answer = call(tool, **given)
    assert (answer["success"], answer["error"]) == (False, text)
    assert re.fullmatch(r"Try again later. A person finds the cause in the log under ref-\w+", answer["hint"])


def test_system_errors_are_logged_with_their_cause(floor, call):
    floor.floor.works.store.write(lambda connection: connection.execute("DROP TABLE task"))
    reference = read_reference(call("add_task", title="x")["hint"].rpartition(" ")[2])
    floor.floor.works.store.flush()
    rows = floor.floor.works.store.read(
        lambda connection: connection.all(
            "SELECT tool, subject, code, stack FROM decision WHERE reference = :reference AND kind = 'error'",
            reference=reference,
        )
    )
    assert [row[:3] for row in rows] == [("add_task", "user:customer", "INTERNAL_ERROR")]
    assert "no such table: task" in rows[0][3]


def test_a_long_list_goes_on_at_a_cursor_and_counts_all(call):
    for number in range(205):
        call("add_task", title=f"Task {number}")
    first = call("list_tasks")
    assert (len(first["tasks"]), first["count"], first["nextCursor"]) == (200, 205, "6")
    rest = call("list_tasks", cursor=first["nextCursor"])
    assert (len(rest["tasks"]), rest["count"], "nextCursor" in rest) == (5, 205, False)
    assert [task["id"] for task in first["tasks"] + rest["tasks"]] == list(range(205, 0, -1))


def test_at_200_there_is_no_cursor(call):
    for number in range(200):
        call("add_task", title=f"Task {number}")
    assert list(call("list_tasks")) == ["success", "tasks", "count", "filter"]


def test_a_list_of_long_words_is_cut_by_size(call):
    for _ in range(120):
        call("add_task", title="x", description="字" * 1000)
    found: list[int] = []
    answer = call("list_tasks")
    while True:
        found += [task["id"] for task in answer["tasks"]]
        assert answer["count"] == 120
        if "nextCursor" not in answer:
            break
        answer = call("list_tasks", cursor=answer["nextCursor"])
    assert found == list(range(120, 0, -1))


@pytest.mark.parametrize("cursor", ["0", "-1", "x", "1 OR 1=1", ""])
def test_a_bad_cursor_is_refused(call, cursor):
    answer = call("list_tasks", cursor=cursor)
    assert (answer["success"], answer["error"]) == (False, "The cursor is not one of ours")
    assert answer["hint"].startswith("Pass on nextCursor")


@pytest.mark.parametrize("tool", ["add_task", "list_tasks", "complete_task", "delete_task", "update_task"])
def test_a_user_id_that_is_sent_is_refused(floor, call, tool):
    call("add_task", "guest", title="Guest's")
    before = floor.call("todo_direct", "list_tasks", {"user_id": "guest"})
    answer = call(tool, title="x", task_id=1, user_id="guest")
    assert answer["success"] is False
    assert floor.call("todo_direct", "list_tasks", {"user_id": "guest"}) == before
    assert floor.call("todo_direct", "list_tasks", {"user_id": "customer"}) == []


def test_both_toolsets_see_the_same_rows(floor, call):
    call("add_task", title="Over one")
    floor.call("todo_direct", "add_task", {"user_id": "customer", "title": "Over the other"})
    floor.call("todo_direct", "complete_task", {"user_id": "customer", "task_id": 1})
    assert [(task["title"], task["completed"]) for task in call("list_tasks")["tasks"]] == [
        ("Over the other", False),
        ("Over one", True),
    ]


def test_agents_have_no_list(floor):
    floor.hire("worker-1", "WORKER", with_token=False)
    token = floor.issue_token(agent="worker-1")[1]
    actor = floor.floor.identity.authenticate(Credential(token=token))
    assert floor.floor.tools_for(actor, [floor.floor.toolsets["todo"]]) == []


def test_over_execute_in_the_envelope_of_the_floor(server):
    customer = server.user("customer")
    added = customer.post("/mcp/execute", json={"toolName": "add_task", "input": {"title": "Buy milk"}}).json()
    assert (added["success"], added["data"]["task"]["title"]) == (True, "Buy milk")
    refused = customer.post("/mcp/execute", json={"toolName": "complete_task", "input": {"task_id": 9}})
    assert (refused.status_code, refused.json()["error"]["message"]) == (404, "Task 9 not found")
    other = customer.post("/mcp/execute", json={"agentId": "guest", "toolName": "list_tasks", "input": {}})
    assert other.status_code == 403
