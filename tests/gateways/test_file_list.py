"""The file list is rebuilt only when a file or an ignore rule was added, changed or removed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shopfloor.errors import Unavailable
from shopfloor.gateways import file_list, grep
from shopfloor.gateways.files import Files
from shopfloor.gateways.grep import Grep, find_program
from shopfloor.gateways.project_tree import ProjectTree
from tests.toolsets.context.support import make_project

FILES = {"src/a.py": "a\n", "src/deep/b.py": "b\n", ".gitignore": ".venv/\n*.log\n"}
PACKAGES = [f".venv/lib/package{number}/c.py" for number in range(file_list.MAX_UNLISTED_FOLDERS)]
"""More folders than are watched in a tree without listed files."""


@pytest.fixture
def counted_tree(tmp_path: Path) -> tuple[Path, ProjectTree, Callable[[], int]]:
    """Return a tree and a counter of the runs of ripgrep."""
    root = make_project(tmp_path / "p", FILES | dict.fromkeys(PACKAGES, "c\n"))
    (root / "empty" / "inner").mkdir(parents=True)
    make_project(root, {"logs/x.log": "x\n", "logs/2026/y.log": "y\n"})
    settle(root)
    run_log, program = tmp_path / "book", tmp_path / "rg"
    program.write_text(f'#!/bin/sh\necho run >> {run_log}\nexec {find_program()} "$@"\n')
    program.chmod(0o755)
    files = Files(root)
    return root, ProjectTree(files, Grep(files, str(program))), lambda: run_log.read_text().count("run")


def settle(root: Path) -> None:
    """Wait until the next change gets another timestamp than the last."""
    newest = max(os.lstat(path).st_ctime_ns for path in [root, *root.rglob("*")])
    time.sleep(max(0.0, (newest + file_list.SETTLED_NS - time.time_ns()) / 1e9) + 0.02)


def scan(tree: ProjectTree) -> set[str]:
    return set(tree.scan())


@pytest.mark.parametrize("name", [".gitignore", ".ignore", "src/.gitignore"])
def test_ignore_file_that_is_a_pipe_does_not_stop_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setattr(grep, "LIST_SECONDS", 0.5)
    files = Files(make_project(tmp_path / "p", {"src/a.py": "a\n"}))
    tree = ProjectTree(files, Grep(files))
    assert scan(tree) == {"src/a.py"}
    os.mkfifo(files.root / name)
    assert set(tree.scan(thorough=True)) == {"src/a.py"}
    with pytest.raises(Unavailable, match="cannot be listed"):
        ProjectTree(files, Grep(files)).scan()
    (files.root / name).unlink()
    (files.root / "b.py").touch()
    # The list is not tried again at once: each attempt may take a minute.
    assert set(tree.scan(thorough=True)) == {"src/a.py"}
    monkeypatch.setattr(file_list, "MAX_AGE_SECONDS", 0.0)
    assert scan(tree) == {"b.py", "src/a.py"}


def test_unchanged_tree_is_listed_once(counted_tree: tuple[Path, ProjectTree, Callable[[], int]]):
    _, tree, runs = counted_tree
    assert scan(tree) == {"src/a.py", "src/deep/b.py", ".gitignore"}
    assert scan(tree) == scan(tree)
    assert runs() == 1


def test_large_ignored_folder_is_not_watched(counted_tree: tuple[Path, ProjectTree, Callable[[], int]]):
    root, tree, runs = counted_tree
    before = scan(tree)
    (root / PACKAGES[0]).with_name("new.py").write_text("n\n")
    (root / "src" / "a.py").write_text("another\n")
    assert (scan(tree), runs()) == (before, 1)


CHANGES: dict[str, tuple[Callable[[Path], object], set[str], set[str]]] = {
    "a new file": (lambda root: (root / "src" / "n.py").write_text("n\n"), {"src/n.py"}, set()),
    "a new file in an empty folder": (
        lambda root: (root / "empty/inner/n.py").write_text("n\n"),
        {"empty/inner/n.py"},
        set(),
    ),
    "a new file beside an ignored one": (lambda root: (root / "logs/n.txt").write_text("n\n"), {"logs/n.txt"}, set()),
    "a new file in a folder with ignored ones": (
        lambda root: (root / "logs/2026/n.txt").write_text("n\n"),
        {"logs/2026/n.txt"},
        set(),
    ),
    "a new file in a new folder": (lambda root: make_project(root, {"x/y/n.py": "n\n"}), {"x/y/n.py"}, set()),
    "a removed file": (lambda root: (root / "src/a.py").unlink(), set(), {"src/a.py"}),
    "a renamed folder": (
        lambda root: (root / "src/deep").rename(root / "src/flat"),
        {"src/flat/b.py"},
        {"src/deep/b.py"},
    ),
    "a changed rule": (lambda root: (root / ".gitignore").write_text(".venv/\n*.log\na.*\n"), set(), {"src/a.py"}),
    "a removed rule": (
        lambda root: (root / ".gitignore").unlink(),
        {"logs/x.log", "logs/2026/y.log", *PACKAGES},
        {".gitignore"},
    ),
    "a .shopfloorignore rule": (
        lambda root: (root / ".shopfloorignore").write_text("deep/\n"),
        {".shopfloorignore"},
        {"src/deep/b.py"},
    ),
    "a rule that ignores itself": (
        lambda root: (root / "src" / ".ignore").write_text(".ignore\na.py\n"),
        set(),
        {"src/a.py"},
    ),
    "a rule of .git/info/exclude": (
        lambda root: make_project(root, {".git/info/exclude": "b.py\n"}),
        set(),
        {"src/deep/b.py"},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_change_is_noticed_by_the_next_scan(counted_tree: tuple[Path, ProjectTree, Callable[[], int]], change: str):
    root, tree, _ = counted_tree
    before = scan(tree)
    make, added, removed = CHANGES[change]
    make(root)
    assert scan(tree) == (before | added) - removed


def test_recently_changed_tree_is_listed_again(
    counted_tree: tuple[Path, ProjectTree, Callable[[], int]], monkeypatch: pytest.MonkeyPatch
):
    """List again, because another change within the same clock tick would not be noticed."""
    _, tree, runs = counted_tree
    monkeypatch.setattr(file_list, "SETTLED_NS", 3600 * 10**9)
    assert scan(tree) == scan(tree)
    assert runs() == 2


def test_change_of_a_rule_that_ignores_itself_is_noticed(counted_tree: tuple[Path, ProjectTree, Callable[[], int]]):
    root, tree, runs = counted_tree
    rule = root / "src" / ".ignore"
    rule.write_text(".ignore\na.py\n")
    settle(root)
    assert "src/a.py" not in scan(tree)
    rule.write_text(".ignore\nz.py\n")
    assert ("src/a.py" in scan(tree), runs()) == (True, 2)
