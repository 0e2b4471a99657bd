"""Worktrees of a crew after a command of git was killed."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from shopfloor.errors import BadSettings, GitFailed
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


@pytest.fixture
def conflict(worktrees: Worktrees, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A worktree of a task whose file `log.txt` the crew's branch has with another line."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@b")
    folder, other = worktrees.task_folder(1), worktrees.folder / "other"
    asyncio.run(worktrees.ensure_worktree(folder, worktrees.task_branch(1)))
    asyncio.run(worktrees.ensure_worktree(other, None))
    for place, text in ((folder, "ours\n"), (other, "theirs\n")):
        (place / "log.txt").write_text(text)
        (place / f"{text.strip()}.txt").write_text(text)
        commit = asyncio.run(worktrees.commit_all(place, "work"))
    assert asyncio.run(worktrees.advance(commit))
    return folder


def test_a_merge_that_was_killed_between_its_files_and_its_note_is_made_again(worktrees: Worktrees, conflict: Path):
    # Git writes the files first, then the index, and MERGE_HEAD last.
    (conflict / "log.txt").write_text("<<<<<<< HEAD\nours\n=======\n")
    (conflict / "theirs.txt").write_text("the")
    (worktrees.folder / ".merging-task-1").touch()
    assert asyncio.run(worktrees.update_from_crew(conflict)) == ["log.txt"]
    assert asyncio.run(worktrees.is_merging(conflict))
    assert (conflict / "theirs.txt").read_text() == "theirs\n"
    assert ">>>>>>>" in (conflict / "log.txt").read_text()
    # Changes of an agent that works on the conflict are kept.
    (conflict / "log.txt").write_text("ours\ntheirs\n")
    asyncio.run(worktrees.update_from_crew(conflict))
    assert (conflict / "log.txt").read_text() == "ours\ntheirs\n"
    asyncio.run(worktrees.commit_all(conflict, "merged"))
    assert asyncio.run(worktrees.is_ancestor("crew/epic", worktrees.task_branch(1)))


def test_conflicts_are_named_until_they_are_resolved(worktrees: Worktrees, conflict: Path):
    asyncio.run(worktrees.update_from_crew(conflict))
    for staged in (False, True):
        if staged:
            subprocess.run(["git", "add", "--all"], cwd=conflict, check=True)
        with pytest.raises(GitFailed, match=r"^conflicts are not resolved in log\.txt$"):
            asyncio.run(worktrees.commit_all(conflict, "merged"))
        assert asyncio.run(worktrees.list_conflicts(conflict)) == ["log.txt"]


def test_a_heading_of_seven_letters_is_no_conflict(worktrees: Worktrees, conflict: Path):
    (conflict / "README.rst").write_text("Summary\n=======\n")
    (conflict / "log.txt").write_text("Details\n=======\n")
    before = asyncio.run(worktrees.find_commit(worktrees.task_branch(1)))
    assert asyncio.run(worktrees.commit_all(conflict, "text")) != before


def test_an_agent_cannot_make_the_runner_write_a_file_elsewhere(worktrees: Worktrees, conflict: Path, tmp_path: Path):
    git_folder = subprocess.check_output(["git", "rev-parse", "--absolute-git-dir"], cwd=conflict, text=True).strip()
    # A sandbox leaves this folder to its agent.
    for name in ("shopfloor-merge", ".merging-task-1", "task-1"):
        (Path(git_folder) / name).symlink_to(tmp_path / "written")
    assert asyncio.run(worktrees.update_from_crew(conflict)) == ["log.txt"]
    assert not (tmp_path / "written").exists()


def test_conflicts_are_not_looked_for_in_devices(worktrees: Worktrees, conflict: Path):
    (conflict / "log.txt").write_text("<<<<<<< \n>>>>>>> \n")
    subprocess.run(["git", "commit", "--quiet", "--all", "-m", "marks"], cwd=conflict, check=True)
    (conflict / "log.txt").unlink()
    (conflict / "log.txt").symlink_to("/dev/zero")
    assert asyncio.run(worktrees.list_conflicts(conflict)) == []


def test_uncommitted_work_in_a_repository_inside_the_worktree_does_not_prevent_a_commit(
    worktrees: Worktrees, conflict: Path
):
    inner = conflict / "inner"
    subprocess.run(["git", "init", "--quiet", str(inner)], check=True)
    subprocess.run(["git", "commit", "--quiet", "--allow-empty", "-m", "inner"], cwd=inner, check=True)
    first = asyncio.run(worktrees.commit_all(conflict, "first"))
    (inner / "new.txt").write_text("new\n")
    assert asyncio.run(worktrees.commit_all(conflict, "second")) == first


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

    assert "is not in one" in find_fault()
    git("init", "--quiet")
    assert find_fault() == "A crew needs a commit to start from, and the repository has none"
    me = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "user.useConfigOnly=true")
    git(*me, "commit", "--allow-empty", "--message=Begin")
    git("config", "user.useConfigOnly", "true")
    assert find_fault() == "A crew commits, but git does not know your name"
