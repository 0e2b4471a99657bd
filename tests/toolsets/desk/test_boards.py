"""Boards and tasks at the desk."""

from __future__ import annotations

import pytest

from shopfloor.background.housekeeping import list_periodic_tasks
from shopfloor.domain.times import DAY, HOUR, MINUTE
from tests.rows_read import grew
from tests.toolsets.desk.conftest import Desk, count_rows, number_series_sql


def _create_epic(desk: Desk) -> None:
    desk("epic_create", title="Ship it")
    desk("task_create", title="Design", epic=1)
    desk.call_as_agent("planner", "mcp__task__create", title="Build", epicId="epic-1", dependsOn=["task-1"])


def _read_states(desk: Desk, **criteria: object) -> dict[str, list[str]]:
    board = desk("board_show", kind="epic", board="1", **criteria)
    return {
        column["state"]: [task["title"] for task in column["tasks"]] for column in board["columns"] if column["tasks"]
    }


def test_board_groups_its_tasks_by_state(desk: Desk) -> None:
    _create_epic(desk)
    assert _read_states(desk) == {"PENDING": ["Design", "Build"]}
    assert _read_states(desk, text="buil") == {"PENDING": ["Build"]}
    assert desk("board_epics")["epics"][0]["tasks"] == {"PENDING": 2}


def test_user_assigns_moves_and_completes_a_task(desk: Desk) -> None:
    _create_epic(desk)
    desk("task_assign", number=1, agentId="builder")
    desk("task_move", number=1, state="IN_PROGRESS")
    desk("task_move", number=1, state="REVIEW", comment="Have a look")
    assert desk("task_move", number=1, state="COMPLETED")["state"] == "COMPLETED"
    task = desk("task_show", number=1)
    assert [comment["body"] for comment in task["comments"]] == ["Have a look"]
    assert task["dependents"][0]["title"] == "Build"
    assert task["moves"] == []
    assert desk("task_show", number=2)["waitsFor"] == 0
    subjects = [mail["subject"] for mail in desk.call_as_agent("builder", "mcp__mail__list_inbox")["mails"]]
    assert "Assigned to you: task-1 Design" in subjects


def test_illegal_transition_is_rejected_and_names_the_allowed_ones(desk: Desk) -> None:
    _create_epic(desk)
    assert desk.expect_error("task_move", number=1, state="COMPLETED") == (
        "A task cannot go from PENDING to COMPLETED; allowed: ASSIGNED, IN_PROGRESS, CANCELLED"
    )
    assert desk.expect_error("task_move", number=1, state="IN_PROGRESS") == "No agent holds task-1"


def test_a_deletion_can_be_undone(desk: Desk) -> None:
    _create_epic(desk)
    desk("task_delete", number=2)
    assert _read_states(desk) == {"PENDING": ["Design"]}
    assert [task["number"] for task in desk("board_show", kind="epic", board="1")["deleted"]] == [2]
    assert desk("task_show", number=2)["deletedAt"]
    desk("task_restore", number=2)
    assert _read_states(desk) == {"PENDING": ["Design", "Build"]}


def test_deleted_task_blocks_no_other_until_it_is_restored(desk: Desk) -> None:
    _create_epic(desk)
    desk("task_delete", number=1)
    assert desk("task_show", number=2)["waitsFor"] == 0
    desk("task_restore", number=1)
    assert desk("task_show", number=2)["waitsFor"] == 1
    desk("task_delete", number=1)
    desk("task_edit", number=2, removeDependsOn=[1])
    assert desk("task_show", number=2)["waitsFor"] == 0
    assert desk.call_as_agent("builder", "mcp__task__claim", taskId="task-2")["task"]["id"] == "task-2"


def test_unfinished_task_is_not_restored_into_an_epic_that_has_ended(desk: Desk) -> None:
    _create_epic(desk)
    desk("task_delete", number=1)
    desk("task_move", number=2, state="CANCELLED")
    desk("task_delete", number=2)
    desk("epic_move", number=1, state="IN_PROGRESS")
    desk("epic_move", number=1, state="COMPLETED")
    assert desk.expect_error("task_restore", number=1) == "epic-1 has ended; it takes no further work"
    assert desk("task_restore", number=2)["state"] == "CANCELLED"


def test_deleted_task_is_removed_after_a_month(desk: Desk) -> None:
    _create_epic(desk)
    desk("task_comment", number=1, body="Why not")
    desk("task_delete", number=1)
    (task,) = [task for task in list_periodic_tasks([]) if task.name == "deleted tasks"]
    desk.shopfloor.pass_time(29 * DAY)
    desk.shopfloor.engine.housekeeper.run(task)
    assert desk("task_show", number=1)["deletedAt"]
    desk.shopfloor.pass_time(2 * DAY)
    assert desk.expect_error("task_restore", number=1) == "Task 1 not found"
    desk.shopfloor.engine.housekeeper.run(task)
    assert desk.expect_error("task_show", number=1) == "Task 1 not found"
    assert desk("task_show", number=2)["blockers"] == []
    assert desk.shopfloor.rows("SELECT count(*) FROM comment") == [(0,)]


def test_task_in_progress_is_not_deleted(desk: Desk) -> None:
    _create_epic(desk)
    desk("task_assign", number=1, agentId="builder")
    assert desk.expect_error("task_delete", number=1) == "task-1 is assigned to builder"


def test_the_history_of_a_task_names_its_calls(desk: Desk) -> None:
    _create_epic(desk)
    desk("task_assign", number=1, agentId="builder")
    desk.call_as_agent("builder", "mcp__task__update_status", state="IN_PROGRESS")
    desk.flush_log()
    history = [(row["by"], row["tool"]) for row in desk("task_show", number=1)["history"]]
    assert ("operator:operator", "mcp__task__update_status") in history
    assert ("operator:operator", "task_assign") in history


def test_unknown_board_is_not_found(desk: Desk) -> None:
    assert desk.expect_error("board_show", kind="epic", board="nonsense") == "Epic epic-0 not found"
    assert desk.expect_error("board_show", kind="loop", board="missing") == "Run 'missing' not found"
    assert desk.expect_error("task_show", number=99) == "Task 99 not found"


def test_title_description_priority_and_dependencies_are_edited(desk: Desk) -> None:
    _create_epic(desk)
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


def test_dependency_cycle_is_rejected_and_the_whole_edit_is_rolled_back(desk: Desk) -> None:
    _create_epic(desk)
    refused = desk.expect_error("task_edit", number=1, title="Other", addDependsOn=[2])
    assert refused == "Task 1 cannot depend on task 2, which already depends on it"
    assert desk.expect_error("task_edit", number=1, addDependsOn=[1]) == "A task cannot depend on itself"
    task = desk("task_show", number=1)
    assert (task["title"], task["blockers"]) == ("Design", [])


def test_edit_of_an_old_version_is_rejected(desk: Desk) -> None:
    _create_epic(desk)
    version = desk("task_show", number=1)["version"]
    desk.call_as_agent("lead", "mcp__task__update", taskId="task-1", title="Design it")
    refused = desk.expect_error("task_edit", number=1, title="Draw", version=version)
    assert refused == f"task-1 has changed: it is at version {version + 1}, not {version}"
    assert desk("task_show", number=1)["title"] == "Design it"


def test_epic_changes_state_and_ends_with_its_last_task(desk: Desk) -> None:
    _create_epic(desk)
    assert desk("epic_move", number=1, state="IN_PROGRESS")["state"] == "IN_PROGRESS"
    assert desk.expect_error("epic_move", number=1, state="COMPLETED") == (
        "epic-1 cannot be completed: task-1 is PENDING"
    )
    for number in (1, 2):
        desk("task_move", number=number, state="CANCELLED")
    assert desk("epic_move", number=1, state="COMPLETED")["moves"] == []
    assert "COMPLETED is final" in desk.expect_error("epic_move", number=1, state="PLANNING")


def _insert_rows(desk: Desk, many: int) -> None:
    """Insert tasks of the first epic by one statement."""
    desk.shopfloor.execute(
        "INSERT INTO task (workspace, kind, board, title, state, priority, created_at, updated_at)"
        f" SELECT 1, 'epic', '1', 'Task ' || i, 'PENDING', 2, i, i FROM ({number_series_sql(desk)}) AS numbers",
        many=many,
    )
    if desk.engine == "postgres":
        desk.shopfloor.execute("ANALYZE task")


def test_filtered_page_continues_at_its_cursor(desk: Desk) -> None:
    desk("epic_create", title="Big")
    _insert_rows(desk, 2500)
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


@pytest.mark.parametrize("many", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_large_board_reads_as_many_rows_as_one_of_a_thousand_tasks(desk: Desk, many: int) -> None:
    desk("epic_create", title="Big")
    _insert_rows(desk, 1000)
    short = count_rows(desk, "board_show", kind="epic", board="1")
    _insert_rows(desk, many)
    assert not grew(short, count_rows(desk, "board_show", kind="epic", board="1"))


@pytest.mark.parametrize(
    ("state", "moves"),
    [
        ("ASSIGNED", []),
        ("IN_PROGRESS", ["IN_PROGRESS"]),
        ("REVIEW", ["IN_PROGRESS", "REVIEW"]),
        ("BLOCKED", ["IN_PROGRESS", "BLOCKED"]),
        ("FAILED", ["IN_PROGRESS", "FAILED"]),
    ],
)
def test_person_completes_an_assigned_task_from_any_open_state(desk: Desk, state: str, moves: list[str]) -> None:
    _create_epic(desk)
    desk("task_assign", number=1, agentId="builder")
    for step in moves:
        desk("task_move", number=1, state=step)
    assert desk("task_show", number=1)["state"] == state
    done = desk("task_complete", number=1, comment="Seen it work")
    assert (done["state"], done["completedAt"] is not None) == ("COMPLETED", True)
    assert desk("task_show", number=1)["comments"][0]["body"] == "Seen it work"
    assert desk("task_show", number=2)["waitsFor"] == 0
    subjects = [mail["subject"] for mail in desk.call_as_agent("builder", "mcp__mail__list_inbox")["mails"]]
    assert "Completed: task-1 Design" in subjects
    assert desk.call_as_agent("builder", "mcp__agent__get_status")["currentTaskId"] is None
    assert desk("task_complete", number=1) == done


def test_person_completes_a_task_that_has_no_assignee(desk: Desk) -> None:
    _create_epic(desk)
    done = desk("task_complete", number=1)
    assert (done["state"], done["completedAt"] is not None) == ("COMPLETED", True)
    assert desk("task_show", number=2)["waitsFor"] == 0


def test_task_that_waits_or_is_cancelled_is_not_completed(desk: Desk) -> None:
    _create_epic(desk)
    assert (
        desk.expect_error("task_complete", number=2) == "task-2 is blocked by task-1 (PENDING), and cannot be completed"
    )
    desk("task_move", number=1, state="CANCELLED")
    assert desk.expect_error("task_complete", number=1) == (
        "A task cannot go from CANCELLED to COMPLETED; allowed: none, CANCELLED is final"
    )


def test_tasks_are_listed_across_epics_with_filters_and_pages(desk: Desk) -> None:
    _create_epic(desk)
    desk("task_create", title="Alone", assignee="tester")
    desk("task_complete", number=1)

    def list_numbers(**criteria: object) -> list[int]:
        return [task["number"] for task in desk("task_list", **criteria)["tasks"]]

    assert list_numbers() == [2, 3]
    assert list_numbers(includeClosed=True) == [1, 2, 3]
    assert list_numbers(state="COMPLETED") == [1]
    assert list_numbers(epic=1) == [2]
    assert list_numbers(assignee="tester") == [3]
    first = desk("task_list", includeClosed=True, limit=2)
    assert [task["number"] for task in first["tasks"]] == [1, 2]
    assert list_numbers(includeClosed=True, limit=2, cursor=first["nextCursor"]) == [3]
    assert desk.expect_error("task_list", epic=9) == "Epic epic-9 not found"


def test_task_is_created_with_dependencies_and_assignee_or_not_at_all(desk: Desk) -> None:
    _create_epic(desk)
    created = desk("task_create", title="Announce", dependsOn=[1, 2], assignee="builder")
    assert (created["state"], created["waitsFor"], created["assignee"]) == ("ASSIGNED", 2, "builder")
    assert desk.expect_error("task_create", title="Lost", assignee="ghost") == "Agent 'ghost' does not exist."
    assert [task["title"] for task in desk("task_list")["tasks"]] == ["Design", "Build", "Announce"]


def _list_cards(desk: Desk, **criteria: object) -> dict[int, dict[str, object]]:
    board = desk("board_show", kind="epic", board="1", **criteria)
    return {task["number"]: task for column in board["columns"] for task in column["tasks"]}


def test_every_offered_move_succeeds_and_every_other_is_rejected(desk: Desk) -> None:
    _create_epic(desk)
    desk("task_assign", number=2, agentId="builder")
    for state in ("PENDING", "ASSIGNED", "IN_PROGRESS", "REVIEW", "BLOCKED", "FAILED", "COMPLETED", "CANCELLED"):
        for blocked in (False, True):
            for assigned in (False, True):
                number = desk("task_create", title=f"{state} {blocked} {assigned}", epic=1)["number"]
                desk("task_edit", number=number, **({"addDependsOn": [1]} if blocked else {}))
                desk.shopfloor.execute(
                    "UPDATE task SET state = :state, assignee = :assignee WHERE number = :number",
                    number=number,
                    state=state,
                    assignee="builder" if assigned else None,
                )
    for number in range(3, 35):
        task = desk("task_show", number=number)
        for state in ("PENDING", "ASSIGNED", "IN_PROGRESS", "REVIEW", "BLOCKED", "FAILED", "COMPLETED", "CANCELLED"):
            if state == task["state"]:
                continue
            copy = desk("task_create", title="Copy", epic=1, dependsOn=[1] if task["waitsFor"] else [])["number"]
            desk.shopfloor.execute(
                "UPDATE task SET state = :state, assignee = :assignee WHERE number = :number",
                number=copy,
                state=task["state"],
                assignee=task["assignee"],
            )
            error = desk.shopfloor.answer("desk", "task_move", {"number": copy, "state": state}).error
            assert (error is None) == (state in task["moves"]), (task, state, error)


def test_a_task_whose_holder_is_retired_can_only_be_assigned_or_ended(desk: Desk) -> None:
    _create_epic(desk)
    desk("task_assign", number=1, agentId="builder")
    desk("task_move", number=1, state="IN_PROGRESS")
    desk("task_move", number=1, state="BLOCKED")
    desk("agent_retire", name="builder")
    card = _list_cards(desk)[1]
    assert (card["moves"], card["canAssign"], card["canComplete"]) == (["FAILED", "CANCELLED"], True, True)
    assert "builder" not in desk("board_show", kind="epic", board="1")["assignees"]


def test_card_has_comments_branch_and_the_time_since_its_holder_has_it(desk: Desk) -> None:
    _create_epic(desk)
    assert (_list_cards(desk)[1]["heldSince"], _list_cards(desk)[1]["commentCount"]) == (None, 0)
    desk("task_assign", number=1, agentId="builder")
    desk.call_as_agent("builder", "mcp__task__update_status", state="IN_PROGRESS", branchName="feature/design")
    desk("task_comment", number=1, body="One")
    desk("task_comment", number=1, body="Two")
    card = _list_cards(desk)[1]
    assert (card["commentCount"], card["branchName"], card["heldSince"] is not None) == (2, "feature/design", True)
    assert _list_cards(desk)[2]["commentCount"] == 0


def test_board_shows_the_latest_five_completed_tasks_and_pages_through_all(desk: Desk) -> None:
    desk("epic_create", title="Ship it")
    numbers = [desk("task_create", title=f"Task {at}", epic=1)["number"] for at in range(8)]
    for number in reversed(numbers):
        desk.shopfloor.pass_time(1000)
        desk("task_complete", number=number)
    (column,) = [each for each in desk("board_show", kind="epic", board="1")["columns"] if each["state"] == "COMPLETED"]
    assert [task["number"] for task in column["tasks"]] == [1, 2, 3, 4, 5]
    assert column["count"] == 8
    (column,) = desk("board_show", kind="epic", board="1", state="COMPLETED")["columns"]
    assert [task["number"] for task in column["tasks"]] == numbers


def test_graph_has_the_dependencies_between_its_tasks(desk: Desk) -> None:
    _create_epic(desk)
    desk("task_create", title="Elsewhere")
    desk("task_edit", number=2, addDependsOn=[3])
    graph = desk("board_graph", kind="epic", board="1")
    assert [task["number"] for task in graph["tasks"]] == [1, 2]
    assert graph["dependencies"] == [{"task": 2, "blocker": 1}]
    assert graph["complete"]


def test_graph_of_a_large_epic_shows_open_tasks_first(desk: Desk) -> None:
    desk("epic_create", title="Big")
    _insert_rows(desk, 200)
    for number in (1, 2, 3):
        desk("task_complete", number=number)
    graph = desk("board_graph", kind="epic", board="1")
    assert [task["number"] for task in graph["tasks"]] == list(range(4, 154))
    assert not graph["complete"]


def test_epic_offers_its_completion_only_when_all_its_tasks_have_ended(desk: Desk) -> None:
    desk("epic_create", title="Empty")
    assert not desk("board_epics")["epics"][0]["isFinished"]
    desk("task_create", title="Only", epic=1)
    assert (
        desk("board_epics")["epics"][0]["isFinished"],
        desk("epic_move", number=1, state="IN_PROGRESS")["moves"],
    ) == (
        False,
        ["PLANNING", "BLOCKED", "CANCELLED"],
    )
    desk("task_complete", number=1)
    epic = desk("board_epics")["epics"][0]
    assert (epic["isFinished"], epic["moves"]) == (True, ["PLANNING", "BLOCKED", "COMPLETED", "CANCELLED"])
    assert not desk("epic_move", number=1, state="COMPLETED")["isFinished"]


@pytest.mark.parametrize(("step", "many"), [(MINUTE, 40), (10 * MINUTE, 40), (HOUR, 40), (DAY, 40), (DAY, 200)])
def test_progress_counts_tasks_and_completed_ones_in_steps_of_its_length(desk: Desk, step: int, many: int) -> None:
    _create_epic(desk)
    desk.shopfloor.pass_time(step * many)
    desk("task_complete", number=1)
    desk.shopfloor.pass_time(step * many)
    desk("task_create", title="Later", epic=1)
    points = desk("epic_progress", number=1)["points"]
    counts = [(point["tasks"], point["completed"]) for point in points]
    assert len(points) in ({81} if many == 40 else {90})
    assert list(dict.fromkeys(counts)) == [(2, 0), (2, 1), (3, 1)][3 - len(set(counts)) :]
    assert counts[-1] == (3, 1)
    assert desk("epic_progress", number=desk("epic_create", title="Empty")["number"])["points"] == []


def test_several_tasks_change_together_or_not_at_all(desk: Desk) -> None:
    _create_epic(desk)
    changed = desk("tasks_change", numbers=[2, 1], assignee="builder", priority=0)["tasks"]
    assert [(task["number"], task["state"], task["priority"]) for task in changed] == [
        (1, "ASSIGNED", 0),
        (2, "ASSIGNED", 0),
    ]
    refused = desk.expect_error("tasks_change", numbers=[1, 2], state="IN_PROGRESS")
    assert refused == "task 2 of 2: task-2 is blocked by task-1 (IN_PROGRESS), and cannot start"
    assert desk("task_show", number=1)["state"] == "ASSIGNED"
    assert desk.expect_error("tasks_change", numbers=[1]) == "Name a state, an assignee or a priority"
    assert [task["state"] for task in desk("tasks_change", numbers=[1, 2], state="COMPLETED")["tasks"]] == [
        "COMPLETED",
        "COMPLETED",
    ]
