"""Run the third-party clients of package.json with the Node.js that comes with them."""

import os
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
COMMANDS = Path(__file__).parent / "node_modules" / ".bin"


def run(command: str, *arguments: str, preload: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run one of the programs. `preload` is a script that Node.js runs first."""
    if not (COMMANDS / command).exists():
        raise RuntimeError("The clients are not installed. Run `make clients`.")
    # These programs keep settings and logins in the home folder, so they get one of their own.
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
