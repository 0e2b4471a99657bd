"""Find the config files of clients on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from shopfloor.connect.clients import Location

# By path prefix: the environment variable that moves it, and the rest of the path below that variable's folder.
_MOVED_BY = {
    "~/.claude.json": ("CLAUDE_CONFIG_DIR", ".claude.json"),
    "~/.claude/": ("CLAUDE_CONFIG_DIR", ""),
    "~/.codex/": ("CODEX_HOME", ""),
}


def find_config(location: Location, project: Path) -> Path:
    """Return the config file of a location, under its alternative name if only that file exists."""
    path = expand_path(location.path, project)
    other = path.with_name(location.alternative) if location.alternative else path
    return other if other.exists() and not path.exists() else path


def expand_path(path: str, project: Path) -> Path:
    """Return a path from the table of clients as a path on this machine."""
    for start, (variable, rest) in _MOVED_BY.items():
        if path.startswith(start) and os.environ.get(variable):
            return Path(os.environ[variable]).expanduser() / rest / path.removeprefix(start)
    config = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    is_mac = sys.platform == "darwin"
    vscode = Path("~/Library/Application Support/Code/User").expanduser() if is_mac else config / "Code" / "User"
    named = {"{project}": project, "{config}": config, "{vscode}": vscode}
    first, _, rest = path.partition("/")
    return named[first] / rest if first in named else Path(path).expanduser()
