"""Files of other trackers, read as plans. taskmaster.json was written by Task Master 0.43."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from shopfloor.errors import InvalidInput
from shopfloor.interchange.beads import read_beads
from shopfloor.interchange.markdown import read_markdown
from shopfloor.interchange.plan import Plan, PlanComment, PlanItem, read_text
from shopfloor.interchange.speckit import read_speckit
from shopfloor.interchange.taskmaster import read_taskmaster
from shopfloor.interchange.vibe_kanban import read_vibe_kanban

FILES = Path(__file__).parent / "files"
READERS = {
    "beads": read_beads,
    "taskmaster": read_taskmaster,
    "vibe-kanban": read_vibe_kanban,
    "markdown": read_markdown,
    "speckit": read_speckit,
}


def create_vibe_kanban(path: Path) -> None:
    """Create a database with the columns that the migrations of Vibe Kanban 0.1 lead to, and rows as it writes them."""
    with sqlite3.connect(path) as database:
        database.executescript(
            """
            CREATE TABLE projects (id BLOB PRIMARY KEY, name TEXT NOT NULL, default_agent_working_dir TEXT DEFAULT '',
                remote_project_id BLOB, created_at TEXT NOT NULL DEFAULT (datetime('now')),
                updated_at TEXT NOT NULL DEFAULT (datetime('now')));
            CREATE TABLE workspaces (id BLOB PRIMARY KEY, task_id BLOB NOT NULL, branch TEXT NOT NULL);
            CREATE TABLE tasks (id BLOB PRIMARY KEY, project_id BLOB NOT NULL REFERENCES projects (id), title TEXT NOT NULL,
                description TEXT, status TEXT NOT NULL DEFAULT 'todo'
                    CHECK (status IN ('todo', 'inprogress', 'done', 'cancelled', 'inreview')),
                parent_workspace_id BLOB REFERENCES workspaces (id), shared_task_id BLOB,
                created_at TEXT NOT NULL DEFAULT (datetime('now')),
                updated_at TEXT NOT NULL DEFAULT (datetime('now')));
            INSERT INTO projects (id, name, created_at) VALUES (x'0a', 'Shop', '2025-07-01 10:00:00.120');
            INSERT INTO tasks (id, project_id, title, description, status, created_at, updated_at) VALUES
                (x'01', x'0a', 'Pay', 'By card', 'todo', '2025-07-01 10:00:00.001', '2025-07-01 10:00:00.001'),
                (x'02', x'0a', 'Cart', NULL, 'inprogress', '2025-07-01 10:00:01', '2025-07-01 10:00:00'),
                (x'03', x'0a', 'Search', NULL, 'inreview', '2025-07-01 10:00:02', '2025-07-01 10:00:00'),
                (x'04', x'0a', 'List', NULL, 'done', '2025-07-01 10:00:03', '2025-07-02 11:12:13.456'),
                (x'05', x'0a', 'Fax', NULL, 'cancelled', '2025-07-01 10:00:04', '2025-07-01 10:00:00');
            """
        )
    database.close()


def test_beads_issues_become_epics_and_tasks():
    plan = read_beads(FILES / "beads.jsonl")
    epic, core, docs, later = plan.items
    assert plan.warnings == ["Left out: 1 deleted or ephemeral issues, messages and templates"]
    assert (epic.id, epic.kind, epic.title, epic.priority) == ("bd-aydr", "epic", "Add a reset command", 1)
    assert epic.description == (
        "A clean start.\n\n## Design\n\nOne package.\n\n## Acceptance criteria\n\nA test resets twice.\n\n"
        "## Notes\n\nAsk first.\n\n## Labels\n\ncli"
    )
    # bd leaves out a priority of 0.
    assert core == PlanItem(
        id="bd-aydr.1",
        title="Implement the core",
        state="COMPLETED",
        priority=0,
        epic="bd-aydr",
        completed_at="2025-12-13T09:20:06.184893259+11:00",
    )
    assert (docs.title, docs.state, docs.depends_on) == ("Document it", "PENDING", ("bd-aydr.1", "bd-gone"))
    assert docs.comments == (
        PlanComment("7", "lead", "Use the new names", "2025-12-13T10:13:32Z"),
        PlanComment("8", "unknown", "Soon", None),
    )
    assert (later.state, later.priority, later.epic) == ("PENDING", 4, None)


def test_fields_that_beads_writes_today_are_read():
    # The fields, types and states of files that projects with bd 0.4x keep in their repositories, with other texts.
    plan = read_beads(FILES / "beads-export.jsonl")
    assert [(item.id, item.kind, item.state, item.priority, item.epic, item.depends_on) for item in plan.items] == [
        ("till-kmf", "epic", "PENDING", 1, None, ()),
        ("till-8kq", "task", "COMPLETED", 2, "till-kmf", ()),
        ("till-8kq.1", "task", "PENDING", 0, "till-kmf", ()),
        ("till-12j", "task", "PENDING", 2, "till-kmf", ("till-8kq.1",)),
        ("till-mol-pt6", "epic", "PENDING", 2, None, ()),
        ("till-mol-pt6.1", "task", "PENDING", 2, "till-mol-pt6", ()),
    ]
    count, retry = plan.items[1:3]
    reason = "Scale is read over USB. Verified with make test."
    assert count.description == f"# Scope\nRead the scale\n\n## Close reason\n\n{reason}"
    assert [(comment.id, comment.author) for comment in retry.comments] == [("3", "ana")]
    assert plan.warnings == ["Left out: 1 deleted or ephemeral issues, messages and templates"]


def test_parents_of_beads_may_be_a_cycle(tmp_path: Path):
    lines = [
        {"id": one, "title": one, "dependencies": [{"depends_on_id": other, "type": "parent-child"}]}
        for one, other in [("bd-1", "bd-2"), ("bd-2", "bd-1")]
    ]
    file = tmp_path / "issues.jsonl"
    file.write_text(
        "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [*lines, {"id": "a", "title": "x\u2028y"}])
    )
    assert [(item.id, item.epic) for item in read_beads(file).items] == [("bd-1", None), ("bd-2", None), ("a", None)]


def test_beads_export_with_memories_and_templates_is_read(tmp_path: Path):
    lines = [
        {"_type": "issue", "id": "bd-1", "title": "Log in", "status": "closed", "close_reason": "Verified by hand"},
        {"id": "bd-2", "title": "Log out", "status": "closed", "close_reason": "done"},
        {"id": "bd-3", "title": "Release {version}", "status": "open", "is_template": True},
        {"_type": "memory", "key": "tests", "value": "Run them in a container"},
    ]
    file = tmp_path / "issues.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    plan = read_beads(file)
    assert [(item.id, item.state, item.description) for item in plan.items] == [
        ("bd-1", "COMPLETED", "## Close reason\n\nVerified by hand"),
        ("bd-2", "COMPLETED", ""),
    ]
    assert plan.warnings == [
        "Left out: 1 deleted or ephemeral issues, messages and templates",
        "Left out: 1 memories and other records",
    ]


def test_task_master_tags_become_epics_and_subtasks_come_first():
    plan = read_taskmaster(FILES / "taskmaster.json")
    assert [(item.kind, item.id, item.state, item.priority, item.depends_on) for item in plan.items] == [
        ("epic", "master", "PENDING", 2, ()),
        ("task", "master/1", "COMPLETED", 1, ()),
        ("task", "master/2.1", "PENDING", 3, ()),
        ("task", "master/2.2", "PENDING", 3, ("master/2.1",)),
        ("task", "master/2", "PENDING", 3, ("master/1", "master/2.1", "master/2.2")),
        ("task", "master/3", "PENDING", 4, ("master/2",)),
    ]
    assert plan.items[1].description == "Parse the config\n\n## Details\n\nUse a table"


def test_task_master_file_without_tags_and_with_numbers_is_read(tmp_path):
    file = tmp_path / "tasks.json"
    file.write_text(
        '{"tasks": [{"id": 1, "title": "A", "subtasks": [{"id": 1, "title": "B"}, {"id": 2, "title": "C",'
        ' "dependencies": [1]}]}, {"id": 2, "title": "D", "dependencies": [1]}]}'
    )
    assert {item.id: item.depends_on for item in read_taskmaster(file).tasks} == {
        "master/1.1": (),
        "master/1.2": ("master/1.1",),
        "master/1": ("master/1.1", "master/1.2"),
        "master/2": ("master/1",),
    }


def test_vibe_kanban_projects_become_epics(tmp_path):
    create_vibe_kanban(tmp_path / "db.sqlite")
    plan = read_vibe_kanban(tmp_path / "db.sqlite")
    assert [(item.id, item.title, item.state, item.epic) for item in plan.items] == [
        ("0a", "Shop", "PENDING", None),
        ("01", "Pay", "PENDING", "0a"),
        ("02", "Cart", "PENDING", "0a"),
        ("03", "Search", "REVIEW", "0a"),
        ("04", "List", "COMPLETED", "0a"),
        ("05", "Fax", "CANCELLED", "0a"),
    ]
    assert (plan.items[1].description, plan.items[4].completed_at) == ("By card", "2025-07-02T11:12:13.456Z")


def test_spec_kit_phases_become_dependencies():
    plan = read_speckit(FILES / "001-albums" / "tasks.md")
    assert (plan.epics[0].id, plan.epics[0].title) == ("001-albums", "Photo albums")
    graph = {item.id.rpartition("/")[2]: [each.rpartition("/")[2] for each in item.depends_on] for item in plan.tasks}
    assert graph == {
        "T001": [],
        "T002": ["T001"],
        "T003": ["T001"],
        "T004": ["T001", "T002", "T003"],
        "T005": ["T004"],
        "T006": ["T004"],
        "T007": ["T005", "T006", "T001"],
        "T008": ["T004"],
        "T009": ["T004", "T007", "T008"],
    }
    assert [item.state for item in plan.tasks[:3]] == ["COMPLETED", "COMPLETED", "PENDING"]
    assert (plan.tasks[7].title, plan.tasks[7].priority) == ("Share an album in src/share.py", 2)


def test_markdown_headings_become_epics_and_indented_entries_subtasks(tmp_path):
    file = tmp_path / "plan.md"
    file.write_text(
        "# Plan\n\nWords.\n\n- [ ] Alone\n\n## Parser ##\n\n- [ ] Write it\n  Use a table.\n\n"
        "  ```\n  - [ ] not a task\n  ```\n\t- [x] Read the spec\n\t- [-] Ask\n* [x] Ship it\nThe end.\n  - no task\n"
        "\n## Empty\n\n## Parser\n\n- [ ] Write it\n- [ ] Write it\n"
    )
    plan = read_markdown(file)
    titles = {item.id: item.title for item in plan.items}
    assert [(item.title, item.state, item.epic and titles[item.epic]) for item in plan.tasks] == [
        ("Alone", "PENDING", "Plan"),
        ("Read the spec", "COMPLETED", "Parser"),
        ("Ask", "CANCELLED", "Parser"),
        ("Write it", "PENDING", "Parser"),
        ("Ship it", "COMPLETED", "Parser"),
        ("Write it", "PENDING", "Parser"),
        ("Write it", "PENDING", "Parser"),
    ]
    parent = plan.tasks[3]
    assert [titles[each] for each in parent.depends_on] == ["Read the spec", "Ask"]
    assert parent.description == "Use a table.\n\n```\n- [ ] not a task\n```"
    assert [epic.title for epic in plan.epics] == ["Plan", "Parser", "Parser"]
    assert len(titles) == 10
    assert plan == read_markdown(file)


@pytest.mark.parametrize("source", READERS)
@pytest.mark.parametrize(
    "content",
    [None, b"\xff\xfe\x00", b"{", b"[" * 100_000, b'{"id": 3}', b"[1]", b"null"],
    ids=["missing", "binary", "cut off", "deep", "wrong type", "list", "null"],
)
def test_broken_file_is_an_error_that_names_it(tmp_path, source, content):
    file = tmp_path / "broken"
    if content is not None:
        file.write_bytes(content)
    read: Callable[[Path], Plan] = READERS[source]
    with pytest.raises(InvalidInput, match="broken"):
        read(file)


def test_titles_and_texts_are_cut_to_our_limits(tmp_path):
    file = tmp_path / "issues.jsonl"
    long = {"id": "a", "title": "t" * 600, "description": "d" * 70_000}
    file.write_text(f'{json.dumps(long)}\n{{"id": "b", "title": " "}}')
    first, second = read_beads(file).items
    assert len(first.title) == 500
    assert first.description.startswith("t" * 600)
    assert len(first.description) == 65_536
    assert second.title == "b"


def test_id_that_is_used_twice_is_reported(tmp_path):
    file = tmp_path / "issues.jsonl"
    file.write_text('{"id": "a", "title": "Old"}\n{"id": "a", "title": "New"}\n')
    plan = read_beads(file)
    assert [item.title for item in plan.items] == ["New"]
    assert plan.warnings == ["a is in the file more than once; the last one counts"]


def test_endless_and_huge_files_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 2**40)
    for file in (tmp_path / "huge", Path("/dev/zero")):
        with pytest.raises(InvalidInput, match=f"{file} is larger than 200 MB"):
            read_text(file)


def test_lines_may_end_with_cr_and_lf(tmp_path: Path) -> None:
    (tmp_path / "tasks.md").write_bytes(b"\xef\xbb\xbf- [ ] one\r\n- [x] two\r\n")
    assert [item.title for item in read_markdown(tmp_path / "tasks.md").items] == ["one", "two"]
