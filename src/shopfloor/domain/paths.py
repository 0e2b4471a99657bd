"""Which paths an agent may name. Whole parts are compared, never substrings, without access to the file system."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from fnmatch import translate

from shopfloor.errors import PathDenied, PathNotAllowed

# Names that the contract forbids to every agent.
NEVER = (".env", ".env.*", ".git", "node_modules")

# The default data folder is forbidden even if `data` names another one: it may be left over, with its secrets.
DEFAULT_DATA_FOLDER = ".shopfloor"

# Names that look like secrets, but are not.
EXAMPLES = frozenset({".env.example", ".env.sample", ".env.template"})

# Folders that a search skips, although files in some of them may be read. Case-sensitive: `Build` is source in Zig's
# standard library.
EXCLUDED = frozenset({"node_modules", ".git", "dist", "build", ".next", ".context"})

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SEPARATORS = re.compile(r"[\\/]")


class PathRules:
    """The rules of one project: which names are never opened."""

    def __init__(self, secret_names: Sequence[str] = (), data_folder: str | None = None) -> None:
        self._patterns = tuple(fold_name(name) for name in (*NEVER, *secret_names))
        self._secret = re.compile("|".join(translate(pattern) for pattern in self._patterns)).match
        self._data = tuple(fold_name(part) for part in data_folder.split("/")) if data_folder else ()

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of names that are never opened."""
        return self._patterns

    def check(self, path: str) -> tuple[str, ...]:
        """Return the parts of a path below the root, or raise an error that does not depend on what exists there."""
        # Both forms are checked: as this system splits the path, and as a system that also treats backslashes and
        # full-width slashes as separators would.
        pieces = [piece for part in path.split("/") for piece in _SEPARATORS.split(fold_name(part))]
        if path.startswith(("/", "\\")) or fold_name(path[:1]) == "/" or _DRIVE.match(path):
            raise PathNotAllowed("Absolute paths not allowed", path=path, hint="Name it relative to the project root")
        if ".." in pieces:
            raise PathNotAllowed(path=path, hint="Name it relative to the project root, without '..'")
        parts = tuple(part for part in path.split("/") if part not in ("", "."))
        if self.blocks(parts) or self.blocks(pieces):
            raise PathDenied(path=path, hint="Secrets, .git, node_modules and the data folder are not readable here")
        return parts

    def blocks(self, parts: Sequence[str]) -> bool:
        """Return whether one of the parts is never opened."""
        names = [fold_name(part) for part in parts]
        if names[:1] == [DEFAULT_DATA_FOLDER] or (self._data and tuple(names[: len(self._data)]) == self._data):
            return True
        return any(self._secret(name) and name not in EXAMPLES for name in names)

    def searchable(self, path: str) -> bool:
        """Return whether a search may show this path."""
        parts = path.split("/")
        return not self.blocks(parts) and EXCLUDED.isdisjoint(parts)


def fold_name(part: str) -> str:
    """Return a name as a file system that ignores case, Unicode form and spaces around it would compare it."""
    if part.isascii():
        return part.lower().strip()
    # NFKC after casefold again: folding can produce characters that are not normalized. Format characters (Cf), such as
    # a zero-width space, are removed, because some file systems ignore them.
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", part).casefold())
    return "".join(char for char in plain if unicodedata.category(char) != "Cf").strip()
