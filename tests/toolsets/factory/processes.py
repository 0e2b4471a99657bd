"""Child processes of the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[3]
PATIENCE = 300.0


class Child:
    """A process that waits for `start` and then prints one result."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def start(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def read_result(self) -> Any:
        return json.loads(self.read_line())


@contextmanager
def start_child(module: str, *arguments: str) -> Iterator[Child]:
    """Start another process that waits for `start`, and kill it at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=CHECKOUT,
        env={key: value for key, value in os.environ.items() if not key.startswith("SHOPFLOOR_")}
        | {"PYTHONPATH": str(CHECKOUT / "src")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert (line := Child(process).read_line()) == "ready\n", line
        yield Child(process)
    finally:
        process.kill()
        process.wait(PATIENCE)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
