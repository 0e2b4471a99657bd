"""shopfloor import and shopfloor export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, RunJson
from tests.interchange.test_readers import FILES, create_vibe_kanban

COUNTS = ("epics", "tasks", "dependencies", "comments", "known")


def get_counts(report: dict[str, int]) -> tuple[int, ...]:
    return tuple(report[name] for name in COUNTS)


def test_dry_run_reports_and_writes_nothing(project: Path, run: Run, run_json: RunJson) -> None:
    file = str(FILES / "beads.jsonl")
    report = run_json("import", "beads", file, "--dry-run")
    assert get_counts(report) == (1, 3, 1, 2, 0)
    assert report["problems"] == [
        "Left out: 1 deleted or ephemeral issues, messages and templates",
        "bd-aydr.2 depends on bd-gone, which is not in the file",
    ]
    assert not (project / ".shopfloor").exists()
    out = run("import", "beads", file, "--dry-run")[1]
    assert out.startswith(f"Would import 1 epic, 3 tasks, 1 dependency and 2 comments from {file}\n")
    assert out.endswith("  Import them: the same command without --dry-run\n")


@pytest.mark.parametrize(
    ("source", "file", "counts"),
    [
        ("beads", "beads.jsonl", (1, 3, 1, 2, 0)),
        ("taskmaster", "taskmaster.json", (1, 5, 5, 0, 0)),
        ("speckit", "001-albums/tasks.md", (1, 9, 14, 0, 0)),
        ("markdown", "001-albums/tasks.md", (6, 9, 0, 0, 0)),
        ("vibe-kanban", None, (1, 5, 0, 0, 0)),
    ],
)
def test_import_can_be_repeated(
    project: Path, run: Run, run_json: RunJson, source: str, file: str | None, counts: tuple[int, ...]
) -> None:
    path = FILES / file if file else project / "db.sqlite"
    if file is None:
        create_vibe_kanban(path)
    assert get_counts(run_json("import", source, str(path))) == counts
    known = counts[0] + counts[1]
    assert get_counts(run_json("import", source, str(path))) == (0, 0, 0, 0, known)
    assert get_counts(run_json("import", source, str(path), "--dry-run")) == (0, 0, 0, 0, known)
    assert len(run_json("task", "list", "--all")) == counts[1]
    assert f"{known} epics and tasks were imported before\n" in run("import", source, str(path))[1]


def test_default_file_is_where_the_tracker_keeps_it(project: Path, run: Run) -> None:
    assert run("import", "beads")[2] == (
        "shopfloor: .beads/issues.jsonl not found\n  Name the file: shopfloor import beads FILE\n"
    )
    (project / ".taskmaster" / "tasks").mkdir(parents=True)
    (project / ".taskmaster" / "tasks" / "tasks.json").write_text((FILES / "taskmaster.json").read_text())
    assert run("import", "taskmaster")[0] == 0


def test_more_tasks_than_fit_into_one_call_are_imported(project: Path, run_json: RunJson) -> None:
    lines = [{"id": f"bd-{n}", "title": f"Task {n}", "priority": 2, "dependencies": []} for n in range(250)]
    for n in range(1, 250):
        lines[n]["dependencies"] = [{"depends_on_id": f"bd-{n - 1}", "type": "blocks"}]
    (project / "many.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert get_counts(run_json("import", "beads", "many.jsonl")) == (0, 250, 249, 0, 0)


def test_beads_export_is_imported_as_it_was(
    project: Path, run: Run, run_json: RunJson, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run("import", "beads", str(FILES / "beads.jsonl"))
    assert run("export", "beads", "-o", "out.jsonl") == (0, "", "")
    other = tmp_path_factory.mktemp("other")
    run("import", "beads", "out.jsonl", "--project", str(other))
    lists = [run_json("task", "list", "--all", "--project", str(folder)) for folder in (project, other)]
    names = ("title", "state", "priority", "waitsFor", "board")
    assert [[task[name] for name in names] for task in lists[0]] == [
        [task[name] for name in names] for task in lists[1]
    ]


def test_markdown_export_is_a_document_with_checklists(project: Path, run: Run) -> None:
    run("import", "beads", str(FILES / "beads.jsonl"))
    out = run("export", "markdown")[1]
    assert out.startswith(f"# {project.name}\n\n## Add a reset command\n\n`epic-1` · planning\n\nA clean start.\n")
    assert "- [x] Implement the core\n  `task-1` · completed · priority 0\n" in out
    assert "- [ ] Document it\n  `task-2` · pending · priority 3 · depends on `task-1`\n" in out
    assert "  > lead (beads), 2025-12-13T10:13:32.000Z:\n  > Use the new names\n" in out
    assert "\n## Tasks without an epic\n\n- [ ] Later\n" in out


def test_export_to_a_terminal_has_no_control_characters(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("task", "add", "Red \x1b[31m")
    assert "Red \x1b[31m" in run("export", "markdown")[1]
    monkeypatch.setattr("shopfloor.cli.exports.is_terminal", lambda: True)
    assert "Red �[31m" in run("export", "markdown")[1]


def test_export_creates_no_data_folder_and_explains_a_bad_path(project: Path, run: Run) -> None:
    assert run("export", "beads") == (0, "", "")
    assert not (project / ".shopfloor").exists()
    assert "cannot be written" in run("export", "markdown", "-o", "/nowhere/x.md")[2]
