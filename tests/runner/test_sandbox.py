"""Agents in a sandbox, with the real bubblewrap: what they can read, change and reach."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shopfloor.errors import BadSettings
from shopfloor.runner.crew_options import read_crew_options
from shopfloor.runner.sandbox import SandboxOptions, build_sandbox
from shopfloor.settings import Settings
from tests.runner.crew_support import CrewProject
from tests.runner.support import wait_until

SECRET = "the-secret-of-the-operator"
GIT = "git -c user.name=a -c user.email=a@b"


sees_checkout = pytest.mark.skipif(
    Path(sys.prefix).is_relative_to("/tmp"),
    reason="a sandbox has a /tmp of its own, without the agents of this checkout",
)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[CrewProject]:
    """A project with a repository and a secret in its data folder, and a home with a key."""
    project = CrewProject(tmp_path / "project")
    (project.root / ".journal").touch()
    (project.root / ".shopfloor").mkdir()
    (project.root / ".shopfloor" / "operator.token").write_text(SECRET)
    project.write_spec("make one.txt")
    yield project
    wait_until(lambda: not project.list_live_processes())


def commit_attempts(project: CrewProject, attempts: dict[str, str]) -> None:
    (project.root / "attempts.json").write_text(json.dumps(attempts))
    project.git("add", "attempts.json")
    project.git("commit", "--quiet", "--message=Attempts")


def read_outcomes(folder: Path) -> dict[str, int]:
    """Return the exit codes of the attempts."""
    return {name: code for name, (code, _) in json.loads((folder / "outcomes.json").read_text()).items()}


def sandbox_options(project: CrewProject, network: str) -> tuple[str, ...]:
    return ("--sandbox", "--sandbox-network", network, "--sandbox-write", str(project.root / ".journal"))


def connect_to(listener: socket.socket) -> str:
    host, port = listener.getsockname()
    return f"{sys.executable} -c 'import socket; socket.create_connection((\"{host}\", {port}), 5)'"


@sees_checkout
def test_an_agent_in_a_sandbox_changes_its_worktree_and_nothing_else(project: CrewProject):
    root, home = project.root, Path.home()
    own = root / ".shopfloor/worktrees/run"
    start = project.git("rev-parse", "main").strip()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        allowed = {
            "write in the worktree": "echo mine > own.txt",
            "write a temporary file": "mktemp",
            "commit": f"git add own.txt && {GIT} commit --quiet -m 'by the agent'",
            "read the history": "git log --oneline -3 && git status --short",
            "see its processes only": 'test "$(ls -d /proc/[0-9]* | wc -l)" -lt 20',
        }
        denied = {
            "read the operator's token": f"cat {root}/.shopfloor/operator.token",
            "read the database": f"test -e {root}/.shopfloor/shopfloor.db",
            "write in the project": f"test -e {root}/SPEC.md && touch {root}/SPEC.md",
            "write at home": f"touch {home}/.shopfloor-test-evil",
            "change the git config": f"git config --file {root}/.git/config core.fsmonitor evil",
            "change the config of the worktree": "git config --file $(git rev-parse --git-dir)/config.worktree a.b c",
            "add a git hook": f"touch {root}/.git/hooks/post-commit",
            "move a branch of a person": "git branch --force main HEAD",
            "make a branch": "git branch evil",
            "point the worktree at another repository": "echo /tmp > $(git rev-parse --git-dir)/commondir",
            "replace the repository": "mv .git away || rm .git",
            "lead to another repository": "echo 'gitdir: /tmp' > .git",
            "find the driver": "tr '\\0' ' ' < /proc/*/cmdline | grep -q -e --headless",
            # The value that it has: should this succeed, the machine of the test stays as it is.
            "change the kernel": "cat /proc/sys/kernel/core_pattern > old && cat old > /proc/sys/kernel/core_pattern",
            "leave the sandbox": f"unshare -Urm sh -c 'umount {root}/.shopfloor; cat {root}/.shopfloor/operator.token'",
            "reach a server": connect_to(listener),
            "use a socket": "ls /run/docker.sock /run/postgresql /run/user 2>/dev/null | grep -q .",
            "answer its own question": f"{sys.executable} -m shopfloor runs answer 1 allow --project {root}",
        }
        commit_attempts(project, allowed | denied)
        run = project.run("tries", *sandbox_options(project, "off"), verify="test -f one.txt")
    outcomes = read_outcomes(own)
    assert run.code == 0, run.out + run.err
    assert [name for name in allowed if outcomes[name] != 0] == []
    assert [name for name in denied if outcomes[name] == 0] == []
    # What it committed is on the branch of the run, although it could not write the branch itself.
    assert "by the agent" in project.git("log", "--format=%s", "shopfloor/run")
    assert project.git("rev-parse", "main~1").strip() == start
    assert project.git("fsck", "--strict", "--no-progress") == ""


@sees_checkout
def test_acceptance_commands_and_hooks_run_in_the_sandbox(project: CrewProject):
    # The agent writes the test that the acceptance command runs, so the command can do no more than the agent.
    check = f"import pathlib; pathlib.Path('one.txt').read_text(); pathlib.Path({str(project.root / 'evil')!r}).touch()"
    commit_attempts(project, {"write the check": f"echo {json.dumps(check)} > check.py"})
    hook = f'[{{command = ["touch", "hook.txt", "{project.root}/evil-hook"]}}]'
    run = 'sandbox = true\nsandbox_write = [".journal"]'
    (project.root / "shopfloor.toml").write_text(f"[run]\n{run}\n[hooks]\nsession_end = {hook}\n")
    ended = project.run("tries", "--iterations", "3", verify=f"{sys.executable} check.py")
    own = project.root / ".shopfloor/worktrees/run"
    # Both succeed, in the /tmp of the sandbox, where the tests keep their projects. Neither reaches ours.
    assert ended.code == 0, ended.out + ended.err
    assert (own / "hook.txt").exists()
    assert not (project.root / "evil").exists()
    assert not (project.root / "evil-hook").exists()


@sees_checkout
def test_without_a_worktree_the_repository_is_read_only_and_the_network_is_as_chosen(project: CrewProject):
    root = project.root
    (root / "shopfloor.toml").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        allowed = {"write in the project": "touch own.txt", "reach a server": connect_to(listener)}
        denied = {
            "read the operator's token": "cat .shopfloor/operator.token",
            "change the git config": "git config core.fsmonitor evil",
            "lead to another repository": "echo /tmp > .git/commondir",
            "replace the repository": "mv .git away",
            "set hooks of the next run": "echo '[hooks]' > shopfloor.toml || mv shopfloor.toml away",
            "write at home": f"touch {Path.home()}/.shopfloor-test-evil",
        }
        commit_attempts(project, allowed | denied)
        options = (*sandbox_options(project, "on"), "--worktree", "never")
        run = project.run("tries", *options, verify="test -f one.txt")
    outcomes = read_outcomes(root)
    assert run.code == 0, run.out + run.err
    assert [name for name in allowed if outcomes[name] != 0] == []
    assert [name for name in denied if outcomes[name] == 0] == []


@sees_checkout
def test_an_agent_without_a_repository_cannot_make_one_for_git_outside_the_sandbox(project: CrewProject):
    root, trap = project.root, project.root.parent / "trap"
    shutil.rmtree(root / ".git")
    make = f"git init --quiet . && git config core.fsmonitor 'touch {trap}' && git config core.hooksPath {root}/hooks"
    hook = f"mkdir hooks && echo 'touch {trap}' > hooks/post-checkout && chmod +x hooks/post-checkout"
    bare = "git init --quiet --bare bare && git -C bare config core.bare false && mv bare/* ."
    (root / "attempts.json").write_text(json.dumps({"repository": make, "hook": hook, "bare repository": bare}))
    options = (*sandbox_options(project, "off"), "--iterations", "2")
    for name in ("first", "second"):
        run = project.run("tries", *options, "--name", name, verify="test -f one.txt")
        assert run.code == 0, run.out + run.err
        assert not trap.exists()
        assert not (root / ".git").exists()
        assert (root / "HEAD").exists()


@sees_checkout
def test_a_template_in_the_project_cannot_lead_to_a_hidden_file(project: CrewProject):
    (project.root / "shopfloor.toml").write_text("")
    (project.root / "prompt.md").symlink_to(".shopfloor/operator.token")
    options = (*sandbox_options(project, "off"), "--worktree", "never", "--template", "prompt.md")
    run = project.run("tries", *options, verify="test -f one.txt")
    assert run.code == 1
    assert f"The template {project.root}/prompt.md must not be a link, or be in a linked folder" in run.err


@sees_checkout
def test_a_crew_in_sandboxes_merges_work_that_its_agents_could_not_merge(project: CrewProject):
    project.write_spec("one: write one.txt 1")
    allowed = {"commit": f"touch own.txt && git add own.txt && {GIT} commit --quiet -m 'by the agent'"}
    denied = {
        "move the branch of the crew": "git branch --force shopfloor-crew/crew/epic HEAD",
        "move its own branch": "git branch --force shopfloor-crew/crew/task-1 HEAD",
        "see the worktrees of others": "ls ../plan ../merge ../../../operator.token",
    }
    commit_attempts(project, allowed | denied)
    (project.root / "crew.toml").write_text('[crew]\nsandbox = true\nsandbox_network = "off"\n')
    options = ("--crew", str(project.root / "crew.toml"), "--sandbox-write", str(project.root / ".journal"))
    crew = project.run_crew("tries", *options, workers=1)
    assert crew.code == 0, crew.out + crew.err
    merged = json.loads(project.git("show", "shopfloor-crew/crew/epic:outcomes.json"))
    assert [name for name in allowed if merged[name][0] != 0] == []
    assert [name for name in denied if merged[name][0] == 0] == []
    assert project.git("show", "shopfloor-crew/crew/epic:one.txt") == "1\n"
    assert project.git("branch", "--list", "shopfloor-crew/crew/task-*") == ""


def test_a_sandbox_that_is_not_available_refuses_to_start(project: CrewProject, monkeypatch: pytest.MonkeyPatch):
    programs = project.root.parent / "programs"
    programs.mkdir()
    (programs / "git").symlink_to(str(shutil.which("git")))
    monkeypatch.setenv("PATH", str(programs))
    words = ("run", "--spec", "SPEC.md", "--headless", "--sandbox", "--agent", sys.executable)
    missing = project.run_command(*words)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "--sandbox needs bubblewrap, which is not installed" in missing.stderr
    assert "apt install bubblewrap" in missing.stderr
    # One that is installed and may not make namespaces says so, instead of running the agent without a sandbox.
    (programs / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    (programs / "bwrap").chmod(0o755)
    broken = project.run_command(*words)
    assert (broken.returncode, broken.stdout) == (1, "")
    assert "--sandbox does not work here: bwrap: No permissions to create new namespace" in broken.stderr
    with project.open_server() as shopfloor:
        assert shopfloor.call("desk", "run_list", {})["runs"] == []


@sees_checkout
def test_a_folder_to_write_to_must_exist(project: CrewProject):
    options = SandboxOptions(sandbox=True, sandbox_write=("absent",))
    with pytest.raises(BadSettings, match=r"--sandbox-write: .*absent does not exist"):
        build_sandbox(Settings(project=project.root), options, project.root, ())


def test_the_sandbox_is_an_option_of_the_whole_crew(tmp_path: Path):
    file = tmp_path / "crew.toml"
    file.write_text('[worker]\nagent = "x"\nsandbox = true\n')
    with pytest.raises(
        BadSettings, match=r"`sandbox` in \[worker\] of .*: the sandbox is that of the whole crew"
    ) as error:
        read_crew_options(file, {}, {})
    assert error.value.hint == "Set it in [crew]"


def test_settings_of_runs_confine_crews_too(tmp_path: Path):
    file = tmp_path / "crew.toml"
    file.write_text('[crew]\nsandbox_network = "off"\n[worker]\nagent = "x"\n')
    options = read_crew_options(file, {}, {}, {"sandbox": True, "sandbox_network": "on"})
    assert (options.sandbox, options.sandbox_network) == (True, "off")
