"""Another process on the same floor, for tests that need one that can die."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from shopfloor.settings import Settings
from tests.workbench import Workbench

CHECKOUT = Path(__file__).resolve().parent.parent


def started(settings: Settings, *calls: str) -> subprocess.Popen[str]:
    """A process that makes these calls of the workbench (`tool` or `tool:text`) and then lives on until it is killed."""
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
    floor = Workbench(Settings(project=project, database=database), kind="child")
    floor.tools.inside = _held
    with floor:
        for call in calls:
            tool, _, text = call.partition(":")
            floor.call("bench", tool, {"text": text})
        _held("hold")


def _held(text: str) -> None:
    """Say that everything so far is done, then stay."""
    if text == "hold":
        os.write(1, b"ready\n")
        sys.stdin.readline()


if __name__ == "__main__":
    main()
