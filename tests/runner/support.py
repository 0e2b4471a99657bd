"""Helpers of the runner tests: a project, runs in their own processes, and what they leave behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from shopfloor.domain.runs import Run, format_status
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import run_tasks
from tests.forks import Command
from tests.operator_access import read_as_operator

AGENT = Path(__file__).with_name("agent.py")
PATIENCE = 300.0
"""Seconds after which a test counts as hanging. Working code stays far below it, even on a busy machine."""

FILES = ("one.txt", "two.txt", "three.txt")
SPEC = "# Files\n\n" + "".join(f"- make {name}\n" for name in FILES)
VERIFY = f'{sys.executable} -c "import pathlib; [pathlib.Path(n).read_text() for n in {list(FILES)!r}]"'


@dataclass
class Project:
    """A folder with a specification, and the runs in it."""

    root: Path
    mark: str = field(default_factory=lambda: uuid4().hex)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "SPEC.md").write_text(SPEC)

    @property
    def environment(self) -> dict[str, str]:
        # The output goes to a pipe. Tables fit a width that is set here, and would be cut where the tests have a terminal.
        inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        return {
            **inherited,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "LOOP_TEST_MARK": self.mark,
            "LOOP_TEST_JOURNAL": str(self.root / ".journal"),
        }

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "shopfloor", *words, "--project", str(self.root)]

    def run(self, behaviour: str, *options: str, verify: str | None = VERIFY, timeout: float = PATIENCE) -> EndedRun:
        """Run the loop from its start to its end."""
        return EndedRun(*self.start(behaviour, *options, verify=verify).finish(timeout))

    def start(self, behaviour: str, *options: str, verify: str | None = VERIFY, name: str = "run") -> StartedRun:
        """Start a run and return it."""
        return StartedRun(self.start_command(*self.build_arguments(behaviour, *options, verify=verify, name=name)))

    def build_arguments(
        self, behaviour: str, *options: str, verify: str | None = VERIFY, name: str = "run"
    ) -> list[str]:
        """Build the arguments of the command that starts a run."""
        words = ["run", "--spec", str(self.root / "SPEC.md"), "--name", name, "--headless"]
        words += ["--agent", f"{sys.executable} {AGENT} {behaviour}"]
        if "--grace" not in options:
            words += ["--grace", "2s"]
        words += ["--verify", verify] if verify else []
        return [*words, *options]

    def resume(self, *options: str, name: str = "run") -> StartedRun:
        return StartedRun(self.start_command("run", "--resume", name, "--headless", *options))

    def start_command(self, *words: str) -> Command:
        return Command([*words, "--project", str(self.root)], self.environment, self.root)

    def run_command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end. Approvals are given with the operator's token, because there is no terminal."""
        environment = self.environment
        if not {"answer", "accept", "approve"}.isdisjoint(words[1:2]):
            environment |= {"SHOPFLOOR_OPERATOR_TOKEN": self.operator_token}
        command = Command([*words, "--project", str(self.root)], environment, self.root)
        out, err = command.communicate(PATIENCE)
        return subprocess.CompletedProcess(words, command.wait(), out, err)

    @cached_property
    def operator_token(self) -> str:
        with self.open_server() as shopfloor:
            return str(shopfloor.engine.call_desk("token_issue_operator", {}, "test")["token"])

    @contextmanager
    def open_server(self) -> Iterator[Shopfloor]:
        shopfloor = Shopfloor(Settings(project=self.root), kind="cli")
        try:
            yield shopfloor
        finally:
            shopfloor.close()

    def read_run(self, name: str = "run") -> Run:
        with self.open_server() as shopfloor:
            return read_as_operator(shopfloor, lambda uow: uow.runs.get(name))

    def list_tasks(self, name: str = "run") -> list[tuple[str, str]]:
        """List the content and the status of each task."""
        with self.open_server() as shopfloor:
            tasks = read_as_operator(shopfloor, lambda uow: list(run_tasks.iterate_tasks(uow, name)))
        return [(task.title, format_status(task.state)) for task in tasks]

    def list_iterations(self, name: str = "run") -> list[Any]:
        with self.open_server() as shopfloor:
            return read_as_operator(shopfloor, lambda uow: uow.runs.list_iterations(name, 200))[::-1]

    def list_notes(self, name: str = "run") -> list[str]:
        with self.open_server() as shopfloor:
            return [n.content for n in read_as_operator(shopfloor, lambda uow: uow.notes.list_page(name, 200))]

    def read_journal(self, what: str) -> list[Any]:
        """Read the journal entries of the agent under this heading."""
        path = self.root / ".journal"
        lines = path.read_text().splitlines() if path.exists() else []
        entries = [json.loads(line) for line in lines]
        return [entry["facts"] for entry in entries if entry["what"] == what]

    def release_agent(self) -> None:
        """Let the patient agent begin."""
        (self.root / ".go").touch()

    def read_made_files(self) -> dict[str, str]:
        """Read the files that the agent has made."""
        return {name: (self.root / name).read_text() for name in FILES if (self.root / name).exists()}

    def list_live_processes(self) -> list[str]:
        """List the live processes of this project's runs, found by their mark. Zombies do not count."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (entry / "environ").read_bytes() and not _is_zombie(entry):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


@dataclass
class StartedRun:
    """A run in progress."""

    process: Command

    def finish(self, timeout: float = PATIENCE) -> tuple[int, str, str]:
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(f"the run did not end within {timeout} s:\n{out}\n{err}") from None
        return self.process.wait(), out, err

    def wait_for_event(self, event: str) -> dict[str, Any]:
        """Wait for the next event of this name and return its facts."""
        for line in self.process.stdout:
            facts: dict[str, Any] = json.loads(line)
            if facts["event"] == event:
                return facts
        raise AssertionError(f"the run ended without {event}: {self.process.communicate()[1]}")


@dataclass
class EndedRun:
    """A run that has ended."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def list_events(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event]

    @property
    def reason(self) -> str:
        return str(self.list_events("run_ended")[-1]["reason"])


class RecordingView:
    """A view that records the events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def show(self, event: str, **facts: Any) -> None:
        self.events.append((event, facts))

    def list_names(self) -> list[str]:
        return [event for event, _ in self.events if event != "progress"]


def create_repository(root: Path) -> Callable[..., str]:
    """Make the folder a git repository with a first commit, and return a function that runs git there."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout

    git("init", "--quiet")
    git("config", "user.name", "Tester")
    git("config", "user.email", "tester@example.invalid")
    (root / ".gitignore").write_text(".journal\n.shopfloor\n.died\n.go\n")
    git("add", ".")
    git("commit", "--quiet", "--message", "begin")
    return git


def wait_until(condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Return the first true value of the condition. The limit only ends a test that would hang."""
    limit = time.monotonic() + patience
    while not (value := condition()):
        assert time.monotonic() < limit, "the condition never became true"
        time.sleep(0.05)
    return value


def _is_zombie(entry: Path) -> bool:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
