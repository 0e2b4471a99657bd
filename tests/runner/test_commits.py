"""Commits of a run: nothing that an agent changed is lost, and nothing else is committed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shopfloor.runner.git import commit_changes, diff_tree, fingerprint_tree, snapshot_tree
from tests.runner.support import SPEC, Project, create_repository, wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    "behaviour", ["hangs_after_its_first_file", "hangs_before_its_last_summary", "hangs_after_completion"]
)
def test_the_work_of_a_killed_iteration_is_committed_after_a_resume(project: Project, behaviour: str):
    git = create_repository(project.root)
    run = project.start(behaviour, "--commit")
    wait_until(lambda: project.read_journal("hangs"))
    run.process.kill()
    run.process.communicate()
    wait_until(lambda: not project.list_live_processes())
    assert project.resume().finish()[0] == 0
    assert git("status", "--porcelain") == ""
    assert sorted(git("log", "--name-only", "--format=", "-3").split()) == ["one.txt", "three.txt", "two.txt"]
    assert "did TAS-3" in [each.summary for each in project.list_iterations()]


def test_files_of_a_failed_commit_are_in_the_next_one(project: Project):
    git = create_repository(project.root)
    hook = project.root / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\ntest -e .git/tried && exit 0\ntouch .git/tried\nexit 1\n")
    hook.chmod(0o755)
    ran = project.run("good", "--commit")
    assert (ran.code, len(ran.list_events("commit_failed"))) == (0, 1)
    assert git("status", "--porcelain") == ""
    assert sorted(git("log", "--name-only", "--format=", "-2").split()) == ["one.txt", "three.txt", "two.txt"]


def test_a_project_in_a_folder_of_a_repository_is_committed(tmp_path: Path):
    project = Project(tmp_path / "repository" / "service")
    git = create_repository(project.root.parent)
    (project.root.parent / "other.txt").write_text("not of this project")
    ran = project.run("good", "--commit")
    assert (ran.code, ran.list_events("commit_failed")) == (0, [])
    assert git("status", "--porcelain").split() == ["??", "other.txt"]
    assert git("show", "--name-only", "--format=", "HEAD").split() == ["service/three.txt"]
    wait_until(lambda: not project.list_live_processes())


async def test_files_whose_names_are_too_long_for_a_command_line_are_committed(tmp_path: Path):
    git = create_repository(tmp_path)
    names = [*(f"{number:05}{'n' * 235}" for number in range(10_000)), ":(top)", "*", "line\nbreak"]
    for name in names:
        (tmp_path / name).touch()
    assert await commit_changes(tmp_path, {}, "message") == sorted(names)
    assert git("status", "--porcelain") == ""


def test_changed_code_is_progress(project: Project):
    create_repository(project.root)
    ran = project.run("works_long", "--no-progress", "2", verify=None)
    assert ran.code == 0, ran.reason
    assert len(project.list_iterations()) == 7


def test_unchanged_code_is_no_progress(project: Project):
    create_repository(project.root)
    (project.root / "SPEC.md").write_text(SPEC)
    ran = project.run("loops", "--no-progress", "2", verify=None)
    assert ran.code == 4


@pytest.mark.parametrize("options", [(), ("--commit",)])
def test_work_that_was_verified_in_the_turn_is_not_verified_again(project: Project, options: tuple[str, ...]):
    create_repository(project.root)
    counted = project.root.parent / "counted"
    script = f"open({str(counted)!r}, 'a').write('x'); open('three.txt')"
    ran = project.run("good", *options, verify=f'{sys.executable} -c "{script}"')
    assert ran.code == 0
    # Before the first iteration, and when the agent calls the session complete.
    assert counted.read_text() == "xx"
    assert len(ran.list_events("already_verified")) == 1


def test_work_that_changed_after_its_verification_is_verified_again(project: Project):
    create_repository(project.root)
    ran = project.run("spoils_its_work", "--iterations", "4", verify=f"{sys.executable} -c \"open('three.txt')\"")
    assert ran.code == 3
    assert ran.list_events("already_verified") == []
    assert ran.list_events("not_verified") != []


async def test_the_changes_since_a_snapshot_include_untracked_files_and_those_of_the_same_size(tmp_path: Path):
    git = create_repository(tmp_path)
    (tmp_path / "one").write_text("a\n")
    git("add", "one")
    git("commit", "--quiet", "--message", "one")
    (tmp_path / "mine").write_text("mine\n")
    base = await snapshot_tree(tmp_path)
    assert base is not None
    before = await fingerprint_tree(tmp_path)
    (tmp_path / "one").write_text("b\n")
    (tmp_path / "new").write_text("new\n")
    assert await diff_tree(tmp_path, base, "--name-only") == "new\none\n"
    assert await fingerprint_tree(tmp_path) != before
    assert git("status", "--porcelain") == " M one\n?? mine\n?? new\n"


async def test_without_a_repository_there_is_no_snapshot(tmp_path: Path):
    assert await snapshot_tree(tmp_path) is None
    assert await fingerprint_tree(tmp_path) == ""
    assert await diff_tree(tmp_path, "HEAD") is None
