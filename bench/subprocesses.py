"""Programs that are measured or that measure, each in its own process; they exchange lines of JSON."""

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
TIMEOUT_SECONDS = 30.0
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of the process so far, as the kernel counts them."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def serve_requests(do: Callable[..., Any]) -> None:
    """Run in the child: respond to each line with the result of `do`, until standard input ends."""
    for line in sys.stdin:
        print(json.dumps(do(**json.loads(line))), flush=True)


class Subprocess:
    """A module of this package, run as a program. Its first line of output is `facts`: port, tokens and the like."""

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
            self.facts: dict[str, Any] = self._read_line()
        except BaseException:
            self.stop()
            raise

    def ask(self, **request: Any) -> Any:
        """Send one request and return the response."""
        self.send(**request)
        return self.receive()

    def send(self, **request: Any) -> None:
        """Send one request; `receive` returns its response."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        return self._read_line()

    def stop(self) -> None:
        """Terminate the process and wait for it."""
        self._process.terminate()
        try:
            self._process.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read_line(self) -> Any:
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
    """Return the environment without SHOPFLOOR_ settings; `source` puts another copy of the program first."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOPFLOOR_")}
    return kept if source is None else kept | {"PYTHONPATH": str(source)}
