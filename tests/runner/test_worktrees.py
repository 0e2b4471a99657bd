"""Worktrees of a crew after a command of git was killed."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from shopfloor.errors import BadSettings
from shopfloor.runner.worktrees import Worktrees, find_repository


@pytest.fixture
def worktrees(tmp_path: Path) -> Worktrees:
    top = tmp_path / "project"
    top.mkdir()
    for words in (
        ("init", "--quiet"),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "first"),
        ("branch", "crew/epic"),
    ):
        subprocess.run(["git", *words], cwd=top, check=True)
    return Worktrees(top=top, prefix="", folder=tmp_path / "worktrees", crew="crew", branch="crew/epic")


def list_worktrees(worktrees: Worktrees) -> str:
    return subprocess.check_output(["git", "worktree", "list"], cwd=worktrees.top, text=True)


@pytest.mark.parametrize("left", ["nothing", "files without .git"])
def test_half_removed_worktree_is_removed_completely(worktrees: Worktrees, left: str) -> None:
    folder = worktrees.task_folder(1)
    asyncio.run(worktrees.ensure_worktree(folder, worktrees.task_branch(1)))
    if left == "nothing":
        shutil.rmtree(folder)
    else:
        (folder / "a.txt").write_text("a")
        (folder / ".git").unlink()
    asyncio.run(worktrees.remove_worktree(folder))
    asyncio.run(worktrees.delete_branch(worktrees.task_branch(1)))
    assert not folder.exists()
    assert list_worktrees(worktrees).count("\n") == 1
    assert asyncio.run(worktrees.find_commit(worktrees.task_branch(1))) is None


def test_removing_a_worktree_twice_changes_nothing(worktrees: Worktrees) -> None:
    folder = worktrees.task_folder(1)
    asyncio.run(worktrees.ensure_worktree(folder, worktrees.task_branch(1)))
    for _ in range(2):
        asyncio.run(worktrees.remove_worktree(folder))
    assert list_worktrees(worktrees).count("\n") == 1


def test_what_a_project_lacks_for_a_crew_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    project = tmp_path / "project"
    project.mkdir()

    def find_fault() -> str:
        with pytest.raises(BadSettings) as raised:
            asyncio.run(find_repository(project))
        return raised.value.message

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=project, check=True, capture_output=True)

    assert "is in none" in find_fault()
    git("init", "--quiet")
    assert find_fault() == "A crew needs a commit to begin at, and the repository has none"
    me = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "user.useConfigOnly=true")
    git(*me, "commit", "--allow-empty", "--message=Begin")
    git("config", "user.useConfigOnly", "true")
    assert find_fault() == "A crew commits, and git does not know your name"
