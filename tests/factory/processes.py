"""Processes of the tests' own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE = 90.0


class Child:
    """A process that waits for its start and then says one thing."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def said(self) -> Any:
        return json.loads(self.line())


@contextmanager
def child(module: str, *arguments: str) -> Iterator[Child]:
    """Another process, ready to go, which ends with the block."""
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
        assert (line := Child(process).line()) == "ready\n", line
        yield Child(process)
    finally:
        process.kill()
        process.wait(PATIENCE)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
