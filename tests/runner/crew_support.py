"""Helpers of the crew tests: a project with a repository, crews in their own processes, and a ledger of their work."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shopfloor.domain.crews import Merge
from shopfloor.domain.tasks import Task
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.operator_access import read_as_operator
from tests.runner.support import PATIENCE, EndedRun, Project, StartedRun

CREW_AGENT = Path(__file__).with_name("crew_agent.py")
CHECK = "import pathlib, sys; sys.exit(pathlib.Path('wrong.txt').exists())"
VERIFY = f'{sys.executable} -c "{CHECK}"'


@dataclass
class CrewProject(Project):
    """A project with a repository, and the crews in it."""

    database: str | None = None
    """The database, if it is not a file of the project."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.email", "test@example.invalid")
        self.git("config", "user.name", "Test")
        self.git("config", "commit.gpgsign", "false")
        (self.root / ".gitignore").write_text(".shopfloor\n.journal\n.mark-*\n.go\nSPEC.md\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=Begin")

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | ({} if self.database is None else {"SHOPFLOOR_DATABASE": self.database})

    @contextmanager
    def open_server(self) -> Iterator[Shopfloor]:
        given = {} if self.database is None else {"database": self.database}
        shopfloor = Shopfloor(Settings(project=self.root, **given), kind="cli")
        try:
            yield shopfloor
        finally:
            shopfloor.close()

    def git(self, *words: str, check: bool = True) -> str:
        """Run git in the project and return its output."""
        done = subprocess.run(["git", *words], cwd=self.root, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def write_spec(self, *lines: str) -> None:
        (self.root / "SPEC.md").write_text("# Files\n\n" + "".join(f"- {line}\n" for line in lines))

    def build_crew_arguments(self, behaviour: str, *options: str, workers: int = 2, name: str = "crew") -> list[str]:
        words = ["crew", "start", "--name", name, "--headless", "--agent", self.agent(behaviour)]
        words += ["--workers", str(workers), "--permissions", "allow", "--grace", "2s", "--verify", VERIFY]
        if "--epic" not in options:
            words += ["--spec", str(self.root / "SPEC.md")]
        return [*words, *options]

    def agent(self, behaviour: str) -> str:
        return f"{sys.executable} {CREW_AGENT} {behaviour}"

    def start_crew(self, behaviour: str, *options: str, **facts: Any) -> StartedRun:
        return StartedRun(self.start_command(*self.build_crew_arguments(behaviour, *options, **facts)))

    def run_crew(self, behaviour: str, *options: str, **facts: Any) -> EndedRun:
        return EndedRun(*self.start_crew(behaviour, *options, **facts).finish(PATIENCE))

    def resume_crew(self, *options: str, name: str = "crew") -> EndedRun:
        words = ("crew", "resume", name, "--headless", *options)
        return EndedRun(*StartedRun(self.start_command(*words)).finish(PATIENCE))

    def plan_epic(self, *lines: str) -> str:
        """Create an epic with a task for each `NAME: ACTION`, and return its id."""
        with self.open_server() as shopfloor:
            epic: str = shopfloor.call("factory", "mcp__epic__create", {"title": "Files"})["data"]["id"]
            for line in lines:
                title, _, action = line.partition(": ")
                given = {"title": title, "description": action, "epicId": epic}
                assert shopfloor.call("factory", "mcp__task__create", given)["success"]
        return epic

    def show(self, name: str = "crew") -> dict[str, Any]:
        with self.open_server() as shopfloor:
            shown: dict[str, Any] = shopfloor.call("desk", "crew_show", {"crew": name})
        return shown

    def load(self, name: str = "crew") -> tuple[list[Task], dict[int, Merge]]:
        """Load the tasks and the merge queue of a crew."""
        with self.open_server() as shopfloor:

            def read(uow: Any) -> tuple[list[Task], dict[int, Merge]]:
                epic = uow.crews.get(name).epic
                tasks = uow.tasks.list_page(limit=1000, board=str(epic))
                return tasks, {task.number: uow.merges.find(task.number) for task in tasks}

            return read_as_operator(shopfloor, read)

    def show_file(self, path: str, name: str = "crew") -> str:
        """Read a file of the crew's branch."""
        return self.git("show", f"shopfloor-crew/{name}/epic:{path}")

    def read_prompts(self) -> list[str]:
        return [facts["text"] for facts in self.read_journal("prompt")]

    def check_ledger(self, name: str = "crew", failed: int = 0) -> None:
        """Check that no task is lost, none is merged twice or unverified, and that git and the folders are in order."""
        tasks, merges = self.load(name)
        branch = f"shopfloor-crew/{name}/epic"
        messages = self.git("log", "--format=%s", f"main..{branch}").splitlines()
        assert len(messages) == len(set(messages)), "a task was merged twice"
        states = [task.state.value for task in tasks]
        assert states.count("FAILED") == failed
        assert states.count("COMPLETED") == len(tasks) - failed, states
        for task in tasks:
            if task.completed:
                merge = merges[task.number]
                assert merge is not None
                assert merge.state == "merged"
                assert merge.merged_commit is not None
                self.git("merge-base", "--is-ancestor", merge.merged_commit, branch)
        # Each commit of the branch passes the check, not only the last one.
        for commit in self.git("rev-list", branch).split():
            assert "wrong.txt" not in self.git("ls-tree", "--name-only", commit).split()
        self.git("fsck", "--strict", "--no-dangling")
        assert self.git("status", "--porcelain", "--untracked-files=no") == ""

    def check_merged(self, name: str = "crew") -> None:
        """Check that the project's branch has all of the crew's work, each task once, and that git is in order."""
        branch = f"shopfloor-crew/{name}/epic"
        self.git("merge-base", "--is-ancestor", branch, "main")
        subjects = [line for line in self.git("log", "--format=%s", "main").splitlines() if line.startswith("task-")]
        tasks, _ = self.load(name)
        assert sorted(subjects) == sorted(f"task-{task.number}: {task.title}" for task in tasks)
        self.git("fsck", "--strict", "--no-dangling")
        assert self.git("status", "--porcelain", "--untracked-files=no") == ""
        assert self.git("worktree", "list").count("\n") == 1


def list_events(ended: EndedRun, event: str) -> list[dict[str, Any]]:
    """List the events of a crew, of which each line is one."""
    return [each for each in map(json.loads, ended.out.splitlines()) if each["event"] == event]
