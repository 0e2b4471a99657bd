"""Boards and tasks in the hands of people."""

from __future__ import annotations

import time

from tests.desk.conftest import Desk


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


def test_a_board_of_100_000_tasks_opens_as_fast_as_one_of_100(desk: Desk) -> None:
    desk("epic_create", title="Big")
    engine = desk.floor.floor.works.store.engine

    def fill(many: int) -> None:
        series = (
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :many) SELECT i FROM n"
            if engine == "sqlite"
            else "SELECT generate_series(1, :many) AS i"
        )
        desk.floor.execute(
            "INSERT INTO task (workspace, kind, board, title, state, priority, created_at, updated_at)"
            f" SELECT 1, 'epic', '1', 'Task ' || i, 'PENDING', 2, i, i FROM ({series}) AS numbers",
            many=many,
        )
        if engine == "postgres":
            desk.floor.execute("ANALYZE task")

    def fastest() -> float:
        times = []
        for _ in range(10):
            began = time.perf_counter()
            desk("board_show", kind="epic", board="1")
            times.append(time.perf_counter() - began)
        return min(times)

    fill(1000)
    short = fastest()
    fill(100_000)
    assert fastest() < 4 * short + 0.02
