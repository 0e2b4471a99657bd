"""Runs the outside clients of package.json with the Node.js that comes with them."""

import os
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
COMMANDS = Path(__file__).parent / "node_modules" / ".bin"


def run(command: str, *arguments: str, preload: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What became of one of the programs; `preload` is a script that Node.js runs before it."""
    if not (COMMANDS / command).exists():
        raise RuntimeError("The outside clients are not installed: run `make clients`")
    # These programs keep settings and logins in the home folder; they get one of their own.
    home = CHECKOUT / ".cache" / "home"
    home.mkdir(parents=True, exist_ok=True)
    options = [] if preload is None else ["--require", str(preload)]
    return subprocess.run(
        [str(COMMANDS / "node"), *options, str(COMMANDS / command), *arguments],
        env={**os.environ, "HOME": str(home), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
