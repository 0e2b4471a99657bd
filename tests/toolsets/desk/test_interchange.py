"""Tools that import from other trackers and export for them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.toolsets.desk.conftest import Desk

EPIC = {"id": "e", "kind": "epic", "title": "Reset"}
TASKS: list[dict[str, Any]] = [
    {"id": "1", "title": "Core", "epic": "e", "state": "COMPLETED", "completedAt": "2025-12-13T09:20:06+11:00"},
    {"id": "2", "title": "Docs", "epic": "e", "comments": [{"id": "7", "author": "lead", "body": "Soon"}]},
]
PAIRS = [{"task": "2", "blocker": "1"}]


def test_items_are_imported_once(desk: Desk):
    first = desk("import_items", source="beads", items=[EPIC, *TASKS], dependencies=PAIRS)
    numbers = [one["number"] for one in first["items"]]
    assert [one["outcome"] for one in first["items"]] == ["created"] * 3
    assert (first["dependencies"], first["rejectedDependencies"]) == (1, [])
    again = desk("import_items", source="beads", items=[EPIC, *TASKS], dependencies=PAIRS)
    assert again["items"] == [
        {"id": id, "outcome": "known", "number": number, "comments": 0}
        for id, number in zip(["e", "1", "2"], numbers, strict=True)
    ]
    assert again["dependencies"] == 0
    assert desk("import_find", source="beads", ids=["1", "e", "9"])["known"] == {
        "1": f"task-{numbers[1]}",
        "e": f"epic-{numbers[0]}",
    }
    # Another tracker has ids of its own.
    assert desk("import_items", source="taskmaster", items=[EPIC])["items"][0]["outcome"] == "created"


def test_imported_task_keeps_state_time_epic_and_comments(desk: Desk):
    done = desk("import_items", source="beads", items=[EPIC, *TASKS], dependencies=PAIRS)["items"]
    core = desk("task_show", number=done[1]["number"])
    assert (core["state"], core["completedAt"]) == ("COMPLETED", "2025-12-12T22:20:06.000Z")
    docs = desk("task_show", number=done[2]["number"])
    assert (docs["board"], docs["waitsFor"]) == (str(done[0]["number"]), 0)
    # The lead of this team did not write it.
    assert [(comment["author"], comment["body"]) for comment in docs["comments"]] == [("lead (beads)", "Soon")]
    later = {**TASKS[1], "comments": [*TASKS[1]["comments"], {"id": "8", "author": "x", "body": "Now"}]}
    assert desk("import_items", source="beads", items=[later])["items"][0]["comments"] == 1


def test_dependencies_that_cannot_be_taken_over_are_reported(desk: Desk):
    items = [{"id": "1", "title": "A"}, {"id": "2", "title": "B"}, {"id": "3", "title": "C", "state": "CANCELLED"}]
    pairs = [("1", "2"), ("2", "1"), ("1", "1"), ("1", "3"), ("1", "9")]
    done = desk(
        "import_items",
        source="beads",
        items=items,
        dependencies=[{"task": task, "blocker": blocker} for task, blocker in pairs],
    )
    assert done["dependencies"] == 1
    assert [(each["task"], each["blocker"]) for each in done["rejectedDependencies"]] == pairs[1:]


def test_closed_epic_is_completed_unless_a_task_is_open(desk: Desk):
    desk("import_items", source="beads", items=[EPIC, *TASKS])
    assert desk("import_items", source="beads", closedEpics=["e", "nope"])["closedEpics"] == 0
    number = desk("import_items", source="beads", items=[TASKS[1]])["items"][0]["number"]
    desk("task_complete", number=number)
    assert desk("import_items", source="beads", closedEpics=["e"])["closedEpics"] == 1
    # The epic has ended, so a task that is new in the file cannot go into it.
    (late,) = desk("import_items", source="beads", items=[{"id": "3", "title": "Late", "epic": "e"}])["items"]
    assert (late["outcome"], late["number"]) == ("rejected", None)
    assert "has ended" in late["reason"]


def test_task_that_was_deleted_here_stays_deleted(desk: Desk):
    (done,) = desk("import_items", source="beads", items=[TASKS[1] | {"epic": None}])["items"]
    desk("task_delete", number=done["number"])
    later = {**TASKS[1], "epic": None, "comments": [{"id": "8", "author": "x", "body": "Now"}]}
    (again,) = desk("import_items", source="beads", items=[later])["items"]
    assert (again["outcome"], again["comments"]) == ("deleted", 0)


@pytest.mark.parametrize(
    "given",
    [
        {"source": "Beads!"},
        {"source": "beads", "items": [{"id": "1", "title": "A", "state": "IN_PROGRESS"}]},
        {"source": "beads", "items": [{"id": "1", "title": "A", "completedAt": "yesterday"}]},
        {"source": "beads", "items": [{"id": "1", "title": "A"}] * 101},
        {"source": "beads", "items": [{"id": "", "title": "A"}]},
    ],
    ids=lambda given: str(given)[:60],
)
def test_wrong_items_are_rejected(desk: Desk, given):
    assert desk.expect_error("import_items", **given)


def test_export_has_whole_texts_and_continues(desk: Desk):
    epic = desk("epic_create", title="Ship", description="d" * 3000)
    for title in ("A", "B", "C"):
        desk("task_create", title=title, epic=epic["number"], description="t" * 30_000)
    desk("task_comment", number=1, body="Good")
    assert desk("epic_export")["epics"][0]["description"] == "d" * 3000
    page = desk("task_export", limit=2)
    assert [task["title"] for task in page["tasks"]] == ["A", "B"]
    assert (page["tasks"][0]["description"], page["tasks"][0]["comments"][0]["body"]) == ("t" * 30_000, "Good")
    assert [task["title"] for task in desk("task_export", cursor=page["nextCursor"])["tasks"]] == ["C"]
