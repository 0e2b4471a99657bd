"""Programs that are measured, or that measure: each a process of its own, spoken to in lines of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHECKOUT = Path(__file__).resolve().parent.parent
PATIENCE = 30.0
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """What the process has used so far: user and system time, as the kernel counts them."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def answer(do: Callable[..., Any]) -> None:
    """The side of the child: answer each line with what `do` makes of it, until there are no more."""
    for line in sys.stdin:
        print(json.dumps(do(**json.loads(line))), flush=True)


class Child:
    """A module of this package, run as a program. Its first line says what others need to know of it."""

    def __init__(self, module: str, *arguments: str, log: Path | None = None, source: Path | None = None) -> None:
        self._module = module
        self._log = log or Path(os.devnull)
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"bench.{module}", *arguments],
                cwd=CHECKOUT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=_environment(source),
            )
        self.pid = self._process.pid
        try:
            self.facts: dict[str, Any] = self._next()
        except BaseException:
            self.stop()
            raise

    def ask(self, **request: Any) -> Any:
        """What the child answers to one request."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._next()

    def stop(self) -> None:
        """End the process, and wait until it is gone."""
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _next(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"bench.{self._module} ended:\n{self._log.read_text()[-4000:]}")
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _environment(source: Path | None) -> dict[str, str]:
    """Nobody's settings but the bench's own; `source` puts another copy of the program before the installed one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOPFLOOR_")}
    return kept if source is None else kept | {"PYTHONPATH": str(source)}
