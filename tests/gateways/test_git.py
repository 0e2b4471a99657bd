"""What git does for tools, in worktrees where agents may have put anything."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from shopfloor.gateways.git import Git
from shopfloor.runner.git import find_dirty_files
from shopfloor.runner.worktrees import has_changes


def run_git(folder: Path, *words: str) -> str:
    words = ("-c", "user.name=a", "-c", "user.email=a@b", *words)
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    run_git(folder, "init", "--quiet")
    (folder / "log.txt").write_text("begin\n")
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "--quiet", "--message=Begin")
    return folder


@pytest.fixture
def trap(repository: Path) -> Path:
    """A repository inside the worktree, whose config makes `git status` in it create the returned file."""
    inner, trap = repository / "inner", repository.parent / "trap"
    inner.mkdir()
    run_git(inner, "init", "--quiet")
    (inner / ".gitattributes").write_text("*.txt filter=evil\n")
    (inner / "a.txt").write_text("a\n")
    run_git(inner, "add", "--all")
    run_git(inner, "commit", "--quiet", "--message=Inner")
    run_git(inner, "config", "filter.evil.clean", f"touch {trap}; cat")
    run_git(inner, "config", "core.fsmonitor", f"touch {trap}; false")
    run_git(repository, "add", "inner")
    run_git(repository, "commit", "--quiet", "--message=Work of an agent")
    # Not `ignore = dirty`.
    (repository / ".gitmodules").write_text('[submodule "inner"]\npath = inner\nurl = x\nignore = none\n')
    (inner / "a.txt").write_text("b\n")
    trap.unlink(missing_ok=True)
    return trap


def test_reading_a_worktree_runs_no_program_of_a_repository_inside_it(repository: Path, trap: Path):
    (repository / "new file.txt").write_text("new\n")
    changed = [(file.path, file.added) for file in Git(repository).diff_worktree("HEAD~1")]
    assert changed == [(".gitmodules", 4), ("inner", 1), ("new file.txt", 1)]
    assert not trap.exists()
    # The same repository makes git run its programs otherwise.
    run_git(repository, "status")
    assert trap.exists()


def test_a_runner_does_not_look_into_a_repository_inside_its_worktree(repository: Path, trap: Path):
    assert list(asyncio.run(find_dirty_files(repository))) == [".gitmodules"]
    (repository / ".gitmodules").unlink()
    assert not asyncio.run(has_changes(repository))
    assert not trap.exists()


def test_new_files_with_names_that_are_not_text_are_shown(repository: Path):
    (repository / os.fsdecode(b"n\xff.txt")).write_text("new\n")
    (repository / "empty.txt").touch()
    changed = [(file.path, file.added) for file in Git(repository).diff_worktree("HEAD")]
    assert changed == [("empty.txt", 0), ("n\ufffd.txt", 1)]


@pytest.mark.parametrize("kind", ["pipe", "endless device", "link to a secret"])
def test_an_index_that_is_not_a_file_is_not_copied(repository: Path, kind: str):
    index = repository / ".git" / "index"
    index.unlink()
    if kind == "pipe":
        os.mkfifo(index)
    else:
        index.symlink_to("/dev/zero" if kind == "endless device" else "/etc/passwd")
    assert [file.path for file in Git(repository).diff_worktree("HEAD")] == []


def test_a_file_that_became_a_pipe_counts_as_gone(repository: Path):
    (repository / "log.txt").unlink()
    os.mkfifo(repository / "log.txt")
    assert asyncio.run(find_dirty_files(repository)) == {"log.txt": "gone"}
