"""Boards and tasks in the hands of people."""

from __future__ import annotations

import pytest

from tests.desk.conftest import Desk, cost, series


def _epic(desk: Desk) -> None:
    desk("epic_create", title="Ship it")
    desk("task_create", title="Design", epic=1)
    desk.agent("planner", "mcp__task__create", title="Build", epicId="epic-1", dependsOn=["task-1"])


def _states(desk: Desk, **sought: object) -> dict[str, list[str]]:
    board = desk("board_show", kind="epic", board="1", **sought)
    return {
        column["state"]: [task["title"] for task in column["tasks"]] for column in board["columns"] if column["tasks"]
    }


def test_a_board_shows_its_tasks_by_state(desk: Desk) -> None:
    _epic(desk)
    assert _states(desk) == {"PENDING": ["Design", "Build"]}
    assert _states(desk, text="buil") == {"PENDING": ["Build"]}
    assert desk("board_epics")["epics"][0]["tasks"] == {"PENDING": 2}


def test_a_task_is_given_moved_and_completed_by_a_person(desk: Desk) -> None:
    _epic(desk)
    desk("task_assign", number=1, agentId="builder")
    desk("task_move", number=1, state="IN_PROGRESS")
    desk("task_move", number=1, state="REVIEW", comment="Have a look")
    assert desk("task_move", number=1, state="COMPLETED")["state"] == "COMPLETED"
    task = desk("task_show", number=1)
    assert [comment["body"] for comment in task["comments"]] == ["Have a look"]
    assert task["dependents"][0]["title"] == "Build"
    assert task["moves"] == []
    assert desk("task_show", number=2)["waitsFor"] == 0
    subjects = [mail["subject"] for mail in desk.agent("builder", "mcp__mail__list_inbox")["mails"]]
    assert "Assigned to you: task-1 Design" in subjects


def test_an_illegal_move_is_refused_and_names_the_allowed_ones(desk: Desk) -> None:
    _epic(desk)
    assert desk.refusal("task_move", number=1, state="COMPLETED") == (
        "A task cannot go from PENDING to COMPLETED; allowed: ASSIGNED, IN_PROGRESS, CANCELLED"
    )
    assert desk.refusal("task_move", number=1, state="IN_PROGRESS") == "Nobody holds task-1"


def test_a_deletion_can_be_undone(desk: Desk) -> None:
    _epic(desk)
    desk("task_delete", number=2)
    assert _states(desk) == {"PENDING": ["Design"]}
    assert [task["number"] for task in desk("board_show", kind="epic", board="1")["deleted"]] == [2]
    assert desk("task_show", number=2)["deletedAt"]
    desk("task_restore", number=2)
    assert _states(desk) == {"PENDING": ["Design", "Build"]}


def test_what_somebody_works_on_is_not_deleted(desk: Desk) -> None:
    _epic(desk)
    desk("task_assign", number=1, agentId="builder")
    assert desk.refusal("task_delete", number=1) == "task-1 is in the hands of builder"


def test_the_history_of_a_task_names_its_calls(desk: Desk) -> None:
    _epic(desk)
    desk("task_assign", number=1, agentId="builder")
    desk.agent("builder", "mcp__task__update_status", state="IN_PROGRESS")
    desk.settle()
    history = [(row["by"], row["tool"]) for row in desk("task_show", number=1)["history"]]
    assert ("operator:operator", "mcp__task__update_status") in history
    assert ("operator:operator", "task_assign") in history


def test_what_is_no_board_is_not_found(desk: Desk) -> None:
    assert desk.refusal("board_show", kind="epic", board="nonsense") == "Epic epic-0 not found"
    assert desk.refusal("board_show", kind="loop", board="nobody") == "There is no run 'nobody'"
    assert desk.refusal("task_show", number=99) == "Task 99 not found"


def test_words_priority_and_dependencies_are_edited(desk: Desk) -> None:
    _epic(desk)
    number = desk("task_create", title="Announce", epic=1)["number"]
    version = desk("task_show", number=number)["version"]
    edited = desk(
        "task_edit",
        number=number,
        title="Announce it",
        description="",
        priority=0,
        addDependsOn=[1, 2],
        version=version,
    )
    assert (edited["title"], edited["priority"], edited["waitsFor"]) == ("Announce it", 0, 2)
    assert edited["version"] > version
    assert [each["number"] for each in desk("task_show", number=number)["blockers"]] == [1, 2]
    assert desk("task_edit", number=number, removeDependsOn=[1, 2])["waitsFor"] == 0


def test_a_circle_is_refused_and_nothing_of_the_edit_is_kept(desk: Desk) -> None:
    _epic(desk)
    refused = desk.refusal("task_edit", number=1, title="Other", addDependsOn=[2])
    assert refused == "Task 1 cannot wait for task 2, which already waits for it"
    assert desk.refusal("task_edit", number=1, addDependsOn=[1]) == "A task cannot wait for itself"
    task = desk("task_show", number=1)
    assert (task["title"], task["blockers"]) == ("Design", [])


def test_an_edit_of_what_has_changed_since_is_refused(desk: Desk) -> None:
    _epic(desk)
    version = desk("task_show", number=1)["version"]
    desk.agent("lead", "mcp__task__update", taskId="task-1", title="Design it")
    refused = desk.refusal("task_edit", number=1, title="Draw", version=version)
    assert refused == f"task-1 has changed: it is at version {version + 1}, not {version}"
    assert desk("task_show", number=1)["title"] == "Design it"


def test_an_epic_is_moved_and_ends_with_its_last_task(desk: Desk) -> None:
    _epic(desk)
    assert desk("epic_move", number=1, state="IN_PROGRESS")["state"] == "IN_PROGRESS"
    assert desk.refusal("epic_move", number=1, state="COMPLETED") == ("epic-1 cannot be completed: task-1 is PENDING")
    for number in (1, 2):
        desk("task_move", number=number, state="CANCELLED")
    assert desk("epic_move", number=1, state="COMPLETED")["moves"] == []
    assert "COMPLETED is final" in desk.refusal("epic_move", number=1, state="PLANNING")


def _fill(desk: Desk, many: int) -> None:
    """So many tasks of the first epic, written as one statement."""
    desk.floor.execute(
        "INSERT INTO task (workspace, kind, board, title, state, priority, created_at, updated_at)"
        f" SELECT 1, 'epic', '1', 'Task ' || i, 'PENDING', 2, i, i FROM ({series(desk)}) AS numbers",
        many=many,
    )
    if desk.engine == "postgres":
        desk.floor.execute("ANALYZE task")


def test_a_filter_goes_on_where_it_stopped(desk: Desk) -> None:
    desk("epic_create", title="Big")
    _fill(desk, 2500)
    for number in (1, 1500, 2400):
        desk("task_edit", number=number, title=f"Needle {number}")
    found: list[str] = []
    searched: list[int] = []
    more: dict[str, object] = {}
    while True:
        column = desk("board_show", kind="epic", board="1", state="PENDING", text="NEEDLE", limit=1, **more)["columns"][
            0
        ]
        found += [task["title"] for task in column["tasks"]]
        searched.append(column["searched"])
        if "nextCursor" not in column:
            break
        more = {"cursor": column["nextCursor"]}
    assert found == ["Needle 1", "Needle 1500", "Needle 2400"]
    assert max(searched) == 1000
    assert column["count"] == 1000
    assert not column["counted"]


@pytest.mark.parametrize("many", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_a_board_of_many_tasks_opens_as_fast_as_one_of_a_thousand(desk: Desk, many: int) -> None:
    desk("epic_create", title="Big")
    _fill(desk, 1000)
    short = cost(desk, "board_show", kind="epic", board="1")
    _fill(desk, many)
    assert cost(desk, "board_show", kind="epic", board="1") < 4 * short + 0.02
