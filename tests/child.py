"""Run a second process on the same database, for tests that kill it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from shopfloor.settings import Settings
from tests.workbench import Workbench

CHECKOUT = Path(__file__).resolve().parent.parent


def start_child(settings: Settings, *calls: str) -> subprocess.Popen[str]:
    """Start a process that makes these calls of the workbench (`tool` or `tool:text`) and then runs until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.child", str(settings.project), settings.database_url, *calls],
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": f"{CHECKOUT}/src:{CHECKOUT}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def main() -> None:
    project, database, *calls = sys.argv[1:]
    shopfloor = Workbench(Settings(project=project, database=database), kind="child")
    shopfloor.tools.inside = _hold
    with shopfloor:
        for call in calls:
            tool, _, text = call.partition(":")
            shopfloor.call("bench", tool, {"text": text})
        _hold("hold")


def _hold(text: str) -> None:
    """Report that the previous calls are done, then block."""
    if text == "hold":
        os.write(1, b"ready\n")
        sys.stdin.readline()


if __name__ == "__main__":
    main()
