"""What the tests of the loop share: a project, a run as a process of its own, and a look at what is left of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from shopfloor.domain.loops import Run, spell
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import loops
from tests.forks import Command

AGENT = Path(__file__).with_name("agent.py")
PATIENCE = 300.0
"""Seconds after which something counts as hanging; nothing that works comes near it, however busy the machine."""

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
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "LOOP_TEST_MARK": self.mark,
            "LOOP_TEST_JOURNAL": str(self.root / ".journal"),
        }

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "shopfloor", *words, "--project", str(self.root)]

    def run(self, behaviour: str, *options: str, verify: str | None = VERIFY, timeout: float = PATIENCE) -> Ran:
        """A whole run, from its start to its end."""
        return Ran(*self.start(behaviour, *options, verify=verify).finish(timeout))

    def start(self, behaviour: str, *options: str, verify: str | None = VERIFY, name: str = "run") -> Started:
        """A run that has begun."""
        return Started(self.popen(*self.start_words(behaviour, *options, verify=verify, name=name)))

    def start_words(self, behaviour: str, *options: str, verify: str | None = VERIFY, name: str = "run") -> list[str]:
        """The command that begins a run."""
        words = ["run", "--spec", str(self.root / "SPEC.md"), "--name", name, "--headless"]
        words += ["--agent", f"{sys.executable} {AGENT} {behaviour}"]
        if "--grace" not in options:
            words += ["--grace", "2s"]
        words += ["--verify", verify] if verify else []
        return [*words, *options]

    def resume(self, *options: str, name: str = "run") -> Started:
        return Started(self.popen("run", "--resume", name, "--headless", *options))

    def popen(self, *words: str) -> Command:
        return Command([*words, "--project", str(self.root)], self.environment, self.root)

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command, run to its end."""
        command = self.popen(*words)
        out, err = command.communicate(PATIENCE)
        return subprocess.CompletedProcess(words, command.wait(), out, err)

    @contextmanager
    def floor(self) -> Iterator[Shopfloor]:
        shopfloor = Shopfloor(Settings(project=self.root), kind="cli")
        try:
            yield shopfloor
        finally:
            shopfloor.close()

    def row(self, name: str = "run") -> Run:
        with self.floor() as shopfloor:
            return shopfloor.floor.look(lambda work: work.runs.get(name))

    def tasks(self, name: str = "run") -> list[tuple[str, str]]:
        """Each task's content and status."""
        with self.floor() as shopfloor:
            tasks = shopfloor.floor.look(lambda work: list(loops.all_tasks(work, name)))
        return [(task.title, spell(task.state)) for task in tasks]

    def iterations(self, name: str = "run") -> list[Any]:
        with self.floor() as shopfloor:
            return shopfloor.floor.look(lambda work: work.runs.iterations(name, 200))[::-1]

    def notes(self, name: str = "run") -> list[str]:
        with self.floor() as shopfloor:
            return [n.content for n in shopfloor.floor.look(lambda work: work.run_talk.notes(name, 200))]

    def journal(self, what: str) -> list[Any]:
        """What the agent wrote down under this heading."""
        path = self.root / ".journal"
        lines = path.read_text().splitlines() if path.exists() else []
        entries = [json.loads(line) for line in lines]
        return [entry["facts"] for entry in entries if entry["what"] == what]

    def let_go(self) -> None:
        """The patient agent may begin."""
        (self.root / ".go").touch()

    def made(self) -> dict[str, str]:
        """The files that the agent made."""
        return {name: (self.root / name).read_text() for name in FILES if (self.root / name).exists()}

    def left_over(self) -> list[str]:
        """The processes of this project's runs that still live, by their mark; zombies do not count."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (entry / "environ").read_bytes() and not _zombie(entry):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


@dataclass
class Started:
    """A run that is under way."""

    process: Command

    def finish(self, timeout: float = PATIENCE) -> tuple[int, str, str]:
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(f"the run did not end within {timeout} s:\n{out}\n{err}") from None
        return self.process.wait(), out, err

    def until(self, event: str) -> dict[str, Any]:
        """The facts of the next event of that name."""
        for line in self.process.stdout:
            facts: dict[str, Any] = json.loads(line)
            if facts["event"] == event:
                return facts
        raise AssertionError(f"the run ended without {event}: {self.process.communicate()[1]}")


@dataclass
class Ran:
    """A run that has ended."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def named(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event]

    @property
    def reason(self) -> str:
        return str(self.named("run_ended")[-1]["reason"])


def until(condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """The first true value of the condition. The limit only ends a test that would hang."""
    limit = time.monotonic() + patience
    while not (value := condition()):
        assert time.monotonic() < limit, "it never came true"
        time.sleep(0.05)
    return value


def _zombie(entry: Path) -> bool:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
