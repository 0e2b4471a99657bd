"""The listing of a tree: made again when something came or went or the rules changed, and not otherwise."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shopfloor.gateways import listing
from shopfloor.gateways.files import Files
from shopfloor.gateways.grep import Grep, find_program
from shopfloor.gateways.tree import Tree
from tests.context.support import make_project

FILES = {"src/a.py": "a\n", "src/deep/b.py": "b\n", ".gitignore": ".venv/\n*.log\n", ".venv/lib/x/c.py": "c\n"}


@pytest.fixture
def counted(tmp_path: Path) -> tuple[Path, Tree, Callable[[], int]]:
    """A tree, and how often ripgrep has listed it."""
    root = make_project(tmp_path / "p", FILES)
    (root / "empty" / "inner").mkdir(parents=True)
    (root / "logs").mkdir()
    (root / "logs" / "x.log").write_text("x\n")
    settle(root)
    book, program = tmp_path / "book", tmp_path / "rg"
    program.write_text(f'#!/bin/sh\necho run >> {book}\nexec {find_program()} "$@"\n')
    program.chmod(0o755)
    files = Files(root)
    return root, Tree(files, Grep(files, str(program))), lambda: book.read_text().count("run")


def settle(root: Path) -> None:
    """Wait until the next change is sure to look different from the last."""
    newest = max(os.lstat(path).st_ctime_ns for path in [root, *root.rglob("*")])
    time.sleep(max(0.0, (newest + listing.SETTLED_NS - time.time_ns()) / 1e9) + 0.02)


def seen(tree: Tree) -> set[str]:
    return set(tree.look())


def test_an_unchanged_tree_is_listed_once(counted: tuple[Path, Tree, Callable[[], int]]):
    _, tree, runs = counted
    assert seen(tree) == {"src/a.py", "src/deep/b.py", ".gitignore"}
    assert seen(tree) == seen(tree)
    assert runs() == 1


def test_what_is_ignored_as_a_whole_is_not_looked_at(counted: tuple[Path, Tree, Callable[[], int]]):
    root, tree, runs = counted
    before = seen(tree)
    (root / ".venv" / "lib" / "x" / "new.py").write_text("n\n")
    (root / "src" / "a.py").write_text("another\n")
    assert (seen(tree), runs()) == (before, 1)


CHANGES: dict[str, tuple[Callable[[Path], object], set[str], set[str]]] = {
    "a file comes": (lambda root: (root / "src" / "n.py").write_text("n\n"), {"src/n.py"}, set()),
    "into a folder that was empty": (
        lambda root: (root / "empty/inner/n.py").write_text("n\n"),
        {"empty/inner/n.py"},
        set(),
    ),
    "beside what is ignored": (lambda root: (root / "logs/n.txt").write_text("n\n"), {"logs/n.txt"}, set()),
    "in a new folder": (lambda root: make_project(root, {"x/y/n.py": "n\n"}), {"x/y/n.py"}, set()),
    "a file goes": (lambda root: (root / "src/a.py").unlink(), set(), {"src/a.py"}),
    "a folder is renamed": (
        lambda root: (root / "src/deep").rename(root / "src/flat"),
        {"src/flat/b.py"},
        {"src/deep/b.py"},
    ),
    "a rule changes": (lambda root: (root / ".gitignore").write_text(".venv/\n*.log\na.*\n"), set(), {"src/a.py"}),
    "a rule goes": (
        lambda root: (root / ".gitignore").unlink(),
        {"logs/x.log", ".venv/lib/x/c.py"},
        {".gitignore"},
    ),
    "a rule of ours": (
        lambda root: (root / ".shopfloorignore").write_text("deep/\n"),
        {".shopfloorignore"},
        {"src/deep/b.py"},
    ),
    "a rule that hides itself": (
        lambda root: (root / "src" / ".ignore").write_text(".ignore\na.py\n"),
        set(),
        {"src/a.py"},
    ),
    "git's own rule": (
        lambda root: make_project(root, {".git/info/exclude": "b.py\n"}),
        set(),
        {"src/deep/b.py"},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_is_seen_at_the_next_look(counted: tuple[Path, Tree, Callable[[], int]], change: str):
    root, tree, _ = counted
    before = seen(tree)
    make, come, gone = CHANGES[change]
    make(root)
    assert seen(tree) == (before | come) - gone


def test_a_tree_that_changed_just_now_is_listed_again(
    counted: tuple[Path, Tree, Callable[[], int]], monkeypatch: pytest.MonkeyPatch
):
    """Another change within the same tick of the file system's clock would look the same."""
    _, tree, runs = counted
    monkeypatch.setattr(listing, "SETTLED_NS", 3600 * 10**9)
    assert seen(tree) == seen(tree)
    assert runs() == 2


def test_a_rule_that_hides_itself_is_seen_to_change(counted: tuple[Path, Tree, Callable[[], int]]):
    root, tree, runs = counted
    rule = root / "src" / ".ignore"
    rule.write_text(".ignore\na.py\n")
    settle(root)
    assert "src/a.py" not in seen(tree)
    rule.write_text(".ignore\nz.py\n")
    assert ("src/a.py" in seen(tree), runs()) == (True, 2)
