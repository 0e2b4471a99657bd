"""Nobody ever sees or touches another's list: by construction, at random, and method by method."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shopfloor.domain.actors import OPERATOR
from shopfloor.domain.conversations import Asked
from shopfloor.domain.tasks import BoardKind, State
from shopfloor.errors import NotFound, ShopfloorError
from shopfloor.repositories.conversations import Conversations
from shopfloor.repositories.tasks import Tasks
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import todos

TABLES = ("task", "dependency", "conversation", "chat_message", "comment")

# One value for every parameter of every method; a method with a parameter that is not here fails the test.
ARGUMENTS: dict[str, Any] = {
    "after": None,
    "agent": "customer",
    "author": "intruder",
    "body": "planted",
    "claiming": False,
    "content_key": "mine",
    "digits": "1",
    "numbers": [1],
    "asked": (Asked(1, "Mine"),),
    "assignee": None,
    "before": None,
    "blocker": 2,
    "board": "customer",
    "busy_by": 1,
    "busy_until": 1,
    "by": -1,
    "deleted": True,
    "error": None,
    "granted": (Asked(1, "Mine"),),
    "id": 1,
    "limit": 1000,
    "newest_first": False,
    "now": 7,
    "number": 1,
    "role": "user",
    "since": 0,
    "state": None,
    "target": 2,
    "text": "planted",
    "title": "planted",
    "tool_calls": None,
}
MORE: dict[str, list[dict[str, Any]]] = {
    "Tasks.change": [{"title": "stolen"}, {"deleted_at": 1}, {"board": "intruder"}, {"state": State.COMPLETED.value}],
    "Tasks.forget": [{"before": 2**62}],
    "Conversations.page": [{"before": (2**62, 2**62)}],
}
ADDS = {"Tasks.add", "Conversations.add", "Tasks.lock_graph"}
"""These make rows of the caller's own, and read nothing."""


def methods(kind: type) -> list[Any]:
    names = [name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")]
    return [
        pytest.param(kind, name, more, id=f"{kind.__name__}.{name}{index or ''}")
        for name in names
        for index, more in enumerate(MORE.get(f"{kind.__name__}.{name}", [{}]))
    ]


@pytest.mark.parametrize(("kind", "name", "more"), methods(Tasks) + methods(Conversations))
def test_a_stranger_reads_and_changes_nothing_with_any_method(either_floor, kind, name, more):
    _plant(either_floor)
    before = _rows(either_floor)

    def as_intruder(work: Any) -> Any:
        own: Any = work.tasks_of(BoardKind.LIST, "intruder") if kind is Tasks else work.conversations_of("intruder")
        method = getattr(own, name)
        try:
            return method(**_arguments(method, more))
        except NotFound as error:
            return error.message

    answer = either_floor.floor.works.write(as_intruder, OPERATOR)
    after = _rows(either_floor)
    assert {key: row for key, row in after.items() if key in before} == before, "something of Customer's changed"
    if f"{kind.__name__}.{name}" not in ADDS:
        assert after == before
        assert "Mine" not in repr(answer)
        assert answer in ([], 0, False, None, "", {1: []}, "Task 1 not found", "Conversation 1 not found")


@pytest.mark.parametrize("tool", ["complete_task", "delete_task", "update_task"])
@pytest.mark.parametrize("toolset", ["todo", "todo_direct"])
def test_missing_and_not_yours_are_the_same_bytes(either_floor, toolset, tool):
    _call(either_floor, toolset, "customer", "add_task", title="Mine")
    before = _rows(either_floor)
    more = {"title": "x"} if tool == "update_task" else {}
    theirs = json.dumps(_call(either_floor, toolset, "intruder", tool, task_id=1, **more))
    missing = json.dumps(_call(either_floor, toolset, "intruder", tool, task_id=2, **more))
    assert theirs.encode() == missing.replace("2", "1").encode()
    assert _rows(either_floor) == before


def test_a_removed_user_writes_nothing(floor):
    _call(floor, "todo_direct", "customer", "add_task", title="Mine")
    floor.remove_user("customer")
    assert _call(floor, "todo_direct", "customer", "add_task", title="Ghost") == {"error": "The user was removed"}


@st.composite
def deeds(draw: Callable[..., Any]) -> list[tuple[str, str, str, dict[str, Any]]]:
    """What two users do, over both toolsets, with any ids: their own, the other's, nobody's."""
    one = st.tuples(
        st.sampled_from(["todo", "todo_direct"]),
        st.sampled_from(["customer", "guest"]),
        st.sampled_from(["add_task", "list_tasks", "complete_task", "delete_task", "update_task"]),
        st.integers(1, 8),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=8),
    )
    return [
        (toolset, user, tool, _given(tool, number, user + text))
        for toolset, user, tool, number, text in draw(st.lists(one, max_size=25))
    ]


@pytest.fixture(scope="module")
def shared_floor(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("two-users")
    with Shopfloor(Settings(project=folder)) as floor:
        yield floor


@given(done=deeds())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_two_users_at_random_never_meet(shared_floor, done):
    """Each list is what its own user's deeds make of it, as if the other were not there."""
    first = _clean(shared_floor)
    expected: dict[str, dict[int, dict[str, Any]]] = {"customer": {}, "guest": {}}
    for toolset, user, tool, wanted in done:
        given = {**wanted, "task_id": wanted["task_id"] + first} if "task_id" in wanted else wanted
        answer = _call(shared_floor, toolset, user, tool, **given)
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
        found = _call(shared_floor, "todo_direct", user, "list_tasks")
        assert {task["id"]: {"title": task["title"], "completed": task["completed"]} for task in found} == own


def _given(tool: str, number: int, title: str) -> dict[str, Any]:
    numbered = {} if tool in ("add_task", "list_tasks") else {"task_id": number}
    return {**numbered, "title": title} if tool in ("add_task", "update_task") else numbered


def _call(floor: Shopfloor, toolset: str, user: str, tool: str, **given: Any) -> Any:
    if toolset == "todo":
        return floor.call("todo", tool, given, user)
    return floor.call("todo_direct", tool, {"user_id": user, **given})


def _arguments(method: Any, more: dict[str, Any]) -> dict[str, Any]:
    wanted = {
        name: ARGUMENTS[name]
        for name, parameter in inspect.signature(method).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    return wanted | more


def _plant(floor: Shopfloor) -> None:
    """Customer's things: two tasks, one waiting for the other, a deleted one, a conversation."""
    for title in ("Mine", "Mine too", "Mine, gone"):
        _call(floor, "todo_direct", "customer", "add_task", title=title)
    _call(floor, "todo_direct", "customer", "delete_task", task_id=3)
    floor.floor.works.write(lambda work: work.tasks_of(BoardKind.LIST, "customer").add_blocker(1, 2), OPERATOR)
    floor.floor.works.write(lambda work: work.tasks_of(BoardKind.LIST, "customer").add_blocker(2, 1), OPERATOR)
    begun = floor.call("personal", "begin_turn", {"message": "Mine alone", "history": 5, "seconds": 60}, "customer")
    assert begun["conversationId"] == "conv-1"


def _rows(floor: Shopfloor) -> dict[Any, Any]:
    def all_rows(connection: Any) -> dict[Any, Any]:
        return {
            (table, row[:3] if table == "dependency" else row[0]): row
            for table in TABLES
            for row in connection.all(f"SELECT * FROM {table}")
        }

    return floor.floor.works.store.read(all_rows)


def _clean(floor: Shopfloor) -> int:
    """Nobody has a task; the highest number that was ever given."""

    def clean(connection: Any) -> int:
        connection.execute("DELETE FROM task")
        row = connection.one("SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = 'task'")
        return int(row[0]) if row else 0

    return floor.floor.works.store.write(clean)


def test_a_use_case_for_nobody_is_refused(floor):
    with pytest.raises(ShopfloorError, match="Only users have a list"):
        floor.floor.works.write(lambda work: todos.add(work, "x"), OPERATOR)
