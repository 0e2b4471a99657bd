"""Runs the outside clients of package.json with the Node.js that comes with them."""

import os
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
COMMANDS = Path(__file__).parent / "node_modules" / ".bin"


def run(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    if not (COMMANDS / command).exists():
        raise RuntimeError("The outside clients are not installed: run `make clients`")
    # These programs keep settings and logins in the home folder; they get one of their own.
    home = CHECKOUT / ".cache" / "home"
    home.mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        [COMMANDS / "node", COMMANDS / command, *arguments],
        env={**os.environ, "HOME": str(home), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
