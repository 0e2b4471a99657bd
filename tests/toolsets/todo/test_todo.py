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

from shopfloor import access
from shopfloor.domain.decisions import parse_reference
from shopfloor.toolkit import Credential, Request
from tests.workbench import seed_agent

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
TITLE = "Title must be between 1 and 200 characters"
LOOK = "List the tasks with list_tasks to see their ids"


@pytest.fixture
def call(shopfloor):
    """A call as the user customer; over MCP the same pipeline answers."""

    def call(tool: str, caller: str = "customer", **given: Any) -> Any:
        return shopfloor.call("todo", tool, given, caller)

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


def test_mcp_lists_the_tools_of_the_contract(server):
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


def test_mcp_returns_results_and_errors_of_the_contract(server):
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


def test_add_returns_the_example_of_the_contract(call):
    answer = call("add_task", title="Buy milk")
    assert TIME.fullmatch(answer["task"].pop("created_at"))
    assert answer == {
        "success": True,
        "task": {"id": 1, "title": "Buy milk", "description": None, "completed": False},
    }
    second = call("add_task", title="Finish project", description="Detailed analysis required")
    assert list(second["task"]) == ["id", "title", "description", "completed", "created_at"]
    assert second["task"]["description"] == "Detailed analysis required"


def test_list_returns_the_example_of_the_contract(call):
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


def test_complete_returns_the_example_of_the_contract(call):
    call("add_task", title="Buy milk")
    first = call("complete_task", task_id=1)
    assert list(first) == ["success", "task"]
    assert list(first["task"]) == ["id", "title", "completed", "updated_at"]
    assert first["task"]["completed"] is True
    assert TIME.fullmatch(first["task"]["updated_at"])
    assert call("complete_task", task_id=1) == {**first, "message": "Task was already complete"}


def test_delete_returns_the_example_of_the_contract(call):
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
def test_update_returns_the_example_of_the_contract(call, given, title, description):
    call("add_task", title="Buy milk")
    answer = call("update_task", task_id=1, **given)
    assert TIME.fullmatch(answer["task"].pop("updated_at"))
    task = {"id": 1, "title": title, "description": description, "completed": False}
    assert answer == {"success": True, "task": task}


@pytest.mark.parametrize("title", ["", "  ", "x" * 201, 7])
def test_a_title_has_1_to_200_characters(call, title):
    error = {"success": False, "error": TITLE}
    assert call("add_task", title=title) == error
    assert call("add_task", title=None) == error
    assert call("add_task") == error
    assert call("update_task", task_id=1, title=title) == error


@pytest.mark.parametrize("char", ["x", "é", "🦀", "字"])
def test_limits_are_counted_in_characters(call, char):
    assert call("add_task", title=f" {char * 200} ")["task"]["title"] == char * 200
    assert call("add_task", title=char * 201)["error"] == TITLE
    assert call("add_task", title=char, description=char * 1000)["success"] is True
    too_long = {"success": False, "error": "Description must be 1000 characters or less"}
    assert call("add_task", title=char, description=char * 1001) == too_long
    assert call("update_task", task_id=1, description=char * 1001) == too_long


@pytest.mark.parametrize("filter", ["pending", "", "ALL", 1, True])
def test_status_filter_is_one_of_three(call, filter):
    error = {"success": False, "error": "Invalid filter. Must be 'all', 'active', or 'completed'"}
    assert call("list_tasks", filter=filter) == error


@pytest.mark.parametrize("task_id", [0, -1, True, "1", 1.0, None, 2**63])
@pytest.mark.parametrize("tool", ["complete_task", "delete_task", "update_task"])
def test_an_id_is_a_positive_integer(call, tool, task_id):
    more = {"title": "x"} if tool == "update_task" else {}
    error = {"success": False, "error": "task_id must be a positive integer", "hint": LOOK}
    assert call(tool, task_id=task_id, **more) == error
    assert call(tool, **more) == error


@pytest.mark.parametrize("tool", ["complete_task", "delete_task", "update_task"])
def test_missing_task_is_not_found(call, tool):
    more = {"title": "x"} if tool == "update_task" else {}
    assert call(tool, task_id=999, **more) == {"success": False, "error": "Task 999 not found", "hint": LOOK}


def test_update_without_a_change_is_rejected(call):
    call("add_task", title="Buy milk")
    error = {"success": False, "error": "Must provide at least one field to update (title or description)"}
    assert call("update_task", task_id=1) == error
    assert call("update_task", task_id=1, title=None, description=None) == error


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
    busy = shopfloor.engine.reject_overload(
        Request(shopfloor.engine.toolsets["todo"], tool, given, Credential(), "mcp")
    ).body
    assert busy == {"success": False, "error": text, "hint": "Try again in a second"}
    shopfloor.engine.database.store.write(lambda connection: connection.execute("DROP TABLE task"))
    answer = call(tool, **given)
    assert (answer["success"], answer["error"]) == (False, text)
    assert re.fullmatch(r"Try again later. A person finds the cause in the log under ref-\w+", answer["hint"])


def test_system_errors_are_logged_with_their_cause(shopfloor, call):
    shopfloor.engine.database.store.write(lambda connection: connection.execute("DROP TABLE task"))
    reference = parse_reference(call("add_task", title="x")["hint"].rpartition(" ")[2])
    shopfloor.engine.database.store.flush()
    rows = shopfloor.engine.database.store.read(
        lambda connection: connection.fetch_all(
            "SELECT tool, subject, code, stack FROM decision WHERE reference = :reference AND kind = 'error'",
            reference=reference,
        )
    )
    assert [row[:3] for row in rows] == [("add_task", "user:customer", "INTERNAL_ERROR")]
    assert "no such table: task" in rows[0][3]


def test_long_list_continues_at_a_cursor_and_counts_all_tasks(call):
    for number in range(205):
        call("add_task", title=f"Task {number}")
    first = call("list_tasks")
    assert (len(first["tasks"]), first["count"], first["nextCursor"]) == (200, 205, "6")
    rest = call("list_tasks", cursor=first["nextCursor"])
    assert (len(rest["tasks"]), rest["count"], "nextCursor" in rest) == (5, 205, False)
    assert [task["id"] for task in first["tasks"] + rest["tasks"]] == list(range(205, 0, -1))


def test_list_of_200_tasks_has_no_cursor(call):
    for number in range(200):
        call("add_task", title=f"Task {number}")
    assert list(call("list_tasks")) == ["success", "tasks", "count", "filter"]


def test_list_of_long_descriptions_is_limited_by_size(call):
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
def test_invalid_cursor_is_rejected(call, cursor):
    answer = call("list_tasks", cursor=cursor)
    assert (answer["success"], answer["error"]) == (False, "Invalid cursor")
    assert answer["hint"].startswith("Pass `nextCursor`")


@pytest.mark.parametrize("tool", ["add_task", "list_tasks", "complete_task", "delete_task", "update_task"])
def test_user_id_argument_is_rejected(shopfloor, call, tool):
    call("add_task", "guest", title="Guest's")
    before = shopfloor.call("todo_direct", "list_tasks", {"user_id": "guest"})
    answer = call(tool, title="x", task_id=1, user_id="guest")
    assert answer["success"] is False
    assert shopfloor.call("todo_direct", "list_tasks", {"user_id": "guest"}) == before
    assert shopfloor.call("todo_direct", "list_tasks", {"user_id": "customer"}) == []


def test_both_toolsets_see_the_same_rows(shopfloor, call):
    call("add_task", title="Over one")
    shopfloor.call("todo_direct", "add_task", {"user_id": "customer", "title": "Over the other"})
    shopfloor.call("todo_direct", "complete_task", {"user_id": "customer", "task_id": 1})
    assert [(task["title"], task["completed"]) for task in call("list_tasks")["tasks"]] == [
        ("Over the other", False),
        ("Over one", True),
    ]


def test_agents_cannot_call_the_todo_tools(shopfloor):
    seed_agent(shopfloor, "worker-1", "WORKER", with_token=False)
    token = shopfloor.issue_token(agent="worker-1")["token"]
    actor = shopfloor.engine.identity.authenticate(Credential(token=token))
    assert access.list_tools(actor, [shopfloor.engine.toolsets["todo"]]) == []


def test_execute_wraps_results_in_the_factory_envelope(server):
    customer = server.user("customer")
    added = customer.post("/mcp/execute", json={"toolName": "add_task", "input": {"title": "Buy milk"}}).json()
    assert (added["success"], added["data"]["task"]["title"]) == (True, "Buy milk")
    error = customer.post("/mcp/execute", json={"toolName": "complete_task", "input": {"task_id": 9}})
    assert (error.status_code, error.json()["error"]["message"]) == (404, "Task 9 not found")
    other = customer.post("/mcp/execute", json={"agentId": "guest", "toolName": "list_tasks", "input": {}})
    assert other.status_code == 403
