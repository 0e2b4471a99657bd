"""No user sees or changes the list of another: by construction, at random, and method by method."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shopfloor.domain.conversations import Conversation, PendingDeletion
from shopfloor.domain.principals import OPERATOR
from shopfloor.domain.tasks import BoardKind, State, Task
from shopfloor.domain.text import LINE_BREAKS
from shopfloor.errors import NotFound, ShopfloorError
from shopfloor.repositories.conversations import Conversations
from shopfloor.repositories.tasks import Tasks
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import todos

TABLES = ("task", "dependency", "conversation", "chat_message", "comment")

MINE = Task(
    number=1, kind="list", board="customer", title="Mine", description=None, state=State.PENDING, priority=2,
    open_blockers=0, assignee=None, attempts=0, fence=0, version=1, worktree_path=None, branch_name=None, pr_url=None,
    acceptance=None, due_at=None, due_zone=None, created_at=7, updated_at=7, completed_at=None, deleted_at=None,
)  # fmt: skip

# One value for every parameter of every method; a method with a parameter that is not here fails the test.
ARGUMENTS: dict[str, Any] = {
    "after": None,
    "agent": "customer",
    "author": "intruder",
    "body": "planted",
    "claiming": False,
    "content_key": "mine",
    "conversation": Conversation(1, "planted", (), None, (PendingDeletion(1, "Mine"),), 1, 1, 7, 7),
    "digits": "1",
    "numbers": [1],
    "assignee": None,
    "before": None,
    "blocker": 2,
    "board": "customer",
    "deleted": True,
    "error": None,
    "id": 1,
    "limit": 1000,
    "newest_first": False,
    "now": 7,
    "number": 1,
    "role": "user",
    "since": 0,
    "state": None,
    "target": 2,
    "task": MINE,
    "text": "planted",
    "title": "planted",
    "tool_calls": None,
}
MORE: dict[str, list[dict[str, Any]]] = {
    "Tasks.update": [{"title": "stolen"}, {"board": "intruder"}],
    "Tasks.transition": [{"state": State.COMPLETED}],
    "Tasks.purge_deleted": [{"before": 2**62}],
    "Conversations.list_page": [{"before": (2**62, 2**62)}],
}
ADDS = {"Tasks.add", "Conversations.add", "Tasks.lock_graph"}
"""These make rows of the caller's own, and read nothing."""


def list_methods(kind: type) -> list[Any]:
    names = [name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")]
    return [
        pytest.param(kind, name, more, id=f"{kind.__name__}.{name}{index or ''}")
        for name in names
        for index, more in enumerate(MORE.get(f"{kind.__name__}.{name}", [{}]))
    ]


def test_tables_of_methods_match_the_repositories():
    kinds = {kind.__name__: dict(inspect.getmembers(kind, inspect.isfunction)) for kind in (Tasks, Conversations)}
    existing = {f"{kind}.{name}" for kind, functions in kinds.items() for name in functions}
    assert MORE.keys() | ADDS <= existing
    parameters = {
        name
        for functions in kinds.values()
        for method, function in functions.items()
        if not method.startswith("_")
        for name in inspect.signature(function).parameters
    }
    assert ARGUMENTS.keys() <= parameters


@pytest.mark.parametrize(("kind", "name", "more"), list_methods(Tasks) + list_methods(Conversations))
def test_another_user_reads_and_changes_nothing_with_any_method(server_on_each_engine, kind, name, more):
    _create_data(server_on_each_engine)
    before = _read_rows(server_on_each_engine)

    def call_as_intruder(uow: Any) -> Any:
        own: Any = uow.tasks_of(BoardKind.LIST, "intruder") if kind is Tasks else uow.conversations_of("intruder")
        method = getattr(own, name)
        try:
            return method(**_build_arguments(method, more))
        except NotFound as error:
            return error.message

    answer = server_on_each_engine.engine.database.write(call_as_intruder, OPERATOR)
    after = _read_rows(server_on_each_engine)
    assert {key: row for key, row in after.items() if key in before} == before, "something of Customer's changed"
    adds = f"{kind.__name__}.{name}" in ADDS
    assert adds or after == before
    assert "Mine" not in repr(answer)
    nothing: tuple[Any, ...] = ([], 0, False, None, "", {1: []}, "Task 1 not found", "Conversation 1 not found")
    assert adds or answer in nothing


@pytest.mark.parametrize("tool", ["complete_task", "delete_task", "update_task"])
@pytest.mark.parametrize("toolset", ["todo", "todo_direct"])
def test_missing_task_and_task_of_another_user_return_the_same_bytes(server_on_each_engine, toolset, tool):
    _call(server_on_each_engine, toolset, "customer", "add_task", title="Mine")
    before = _read_rows(server_on_each_engine)
    more = {"title": "x"} if tool == "update_task" else {}
    theirs = json.dumps(_call(server_on_each_engine, toolset, "intruder", tool, task_id=1, **more))
    missing = json.dumps(_call(server_on_each_engine, toolset, "intruder", tool, task_id=2, **more))
    assert theirs.encode() == missing.replace("2", "1").encode()
    assert _read_rows(server_on_each_engine) == before


def test_removed_user_cannot_write(shopfloor):
    _call(shopfloor, "todo_direct", "customer", "add_task", title="Mine")
    shopfloor.remove_user("customer")
    assert _call(shopfloor, "todo_direct", "customer", "add_task", title="Ghost") == {"error": "The user was removed"}


@st.composite
def draw_operations(draw: Callable[..., Any]) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Draw operations of two users over both toolsets, with ids of their own, of the other and of no task."""
    one = st.tuples(
        st.sampled_from(["todo", "todo_direct"]),
        st.sampled_from(["customer", "guest"]),
        st.sampled_from(["add_task", "list_tasks", "complete_task", "delete_task", "update_task"]),
        st.integers(1, 8),
        st.text(
            st.characters(exclude_categories=["Cs"], exclude_characters=["\x00", *LINE_BREAKS]), min_size=1, max_size=8
        ),
    )
    return [
        (toolset, user, tool, _build_input(tool, number, user + text))
        for toolset, user, tool, number, text in draw(st.lists(one, max_size=25))
    ]


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("two-users")
    with Shopfloor(Settings(project=folder)) as shopfloor:
        yield shopfloor


@given(done=draw_operations())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_operations_of_two_users_never_interfere(shared_server, done):
    """Check that each list depends on the operations of its own user only."""
    first = _delete_tasks(shared_server)
    expected: dict[str, dict[int, dict[str, Any]]] = {"customer": {}, "guest": {}}
    for toolset, user, tool, wanted in done:
        given = {**wanted, "task_id": wanted["task_id"] + first} if "task_id" in wanted else wanted
        answer = _call(shared_server, toolset, user, tool, **given)
        own, number = expected[user], given.get("task_id", 0)
        if tool == "add_task":
            id = answer["task"]["id"] if toolset == "todo" else answer["task_id"]
            own[id] = {"title": given["title"].strip(), "completed": False}
        elif tool != "list_tasks" and number not in own:
            text = f"Task {number} not found" if toolset == "todo" else "Task not found"
            assert answer["error"] == text
        elif tool == "complete_task":
            own[number]["completed"] = True
        elif tool == "update_task":
            own[number]["title"] = given["title"].strip()
        elif tool == "delete_task":
            del own[number]
        else:
            shown = answer["tasks"] if toolset == "todo" else answer
            assert [task["id"] for task in shown] == sorted(own, reverse=True)
    for user, own in expected.items():
        found = _call(shared_server, "todo_direct", user, "list_tasks")
        assert {task["id"]: {"title": task["title"], "completed": task["completed"]} for task in found} == own


def _build_input(tool: str, number: int, title: str) -> dict[str, Any]:
    numbered = {} if tool in ("add_task", "list_tasks") else {"task_id": number}
    return {**numbered, "title": title} if tool in ("add_task", "update_task") else numbered


def _call(shopfloor: Shopfloor, toolset: str, user: str, tool: str, **given: Any) -> Any:
    if toolset == "todo":
        return shopfloor.call("todo", tool, given, user)
    return shopfloor.call("todo_direct", tool, {"user_id": user, **given})


def _build_arguments(method: Any, more: dict[str, Any]) -> dict[str, Any]:
    wanted = {
        name: ARGUMENTS[name]
        for name, parameter in inspect.signature(method).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    return wanted | more


def _create_data(shopfloor: Shopfloor) -> None:
    """Create data of the user customer: two tasks that depend on each other, a deleted one and a conversation."""
    for title in ("Mine", "Mine too", "Mine, gone"):
        _call(shopfloor, "todo_direct", "customer", "add_task", title=title)
    _call(shopfloor, "todo_direct", "customer", "delete_task", task_id=3)
    shopfloor.engine.database.write(lambda uow: uow.tasks_of(BoardKind.LIST, "customer").add_blocker(1, 2), OPERATOR)
    shopfloor.engine.database.write(lambda uow: uow.tasks_of(BoardKind.LIST, "customer").add_blocker(2, 1), OPERATOR)
    begun = shopfloor.call("personal", "begin_turn", {"message": "Mine alone", "history": 5, "seconds": 60}, "customer")
    assert begun["conversationId"] == "conv-1"


def _read_rows(shopfloor: Shopfloor) -> dict[Any, Any]:
    def read_rows(connection: Any) -> dict[Any, Any]:
        return {
            (table, row[:3] if table == "dependency" else row[0]): row
            for table in TABLES
            for row in connection.fetch_all(f"SELECT * FROM {table}")
        }

    return shopfloor.engine.database.store.read(read_rows)


def _delete_tasks(shopfloor: Shopfloor) -> int:
    """Delete all tasks, and return the highest number that was used."""

    def delete_tasks(connection: Any) -> int:
        connection.execute("DELETE FROM task")
        row = connection.fetch_one("SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = 'task'")
        return int(row[0]) if row else 0

    return shopfloor.engine.database.store.write(delete_tasks)


def test_use_case_without_a_user_is_rejected(shopfloor):
    with pytest.raises(ShopfloorError, match="Only users have a list"):
        shopfloor.engine.database.write(lambda uow: todos.add_task(uow, "x"), OPERATOR)
