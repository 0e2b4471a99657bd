"""Which paths an agent may name: whole parts are compared, never substrings, and nothing is looked up."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from fnmatch import translate

from shopfloor.errors import PathDenied, PathNotAllowed

NEVER = (".env", ".env.*", ".git", "node_modules")
"""What the contract keeps everybody out of."""

EXAMPLES = frozenset({".env.example", ".env.sample", ".env.template"})
"""What looks like a secret and is none."""

EXCLUDED = frozenset({"node_modules", ".git", "dist", "build", ".next", ".context"})
"""What a search leaves out, though some of it may be read."""

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SEPARATORS = re.compile(r"[\\/]")


class PathRules:
    """The rules of one project: what is never opened, by its name alone."""

    def __init__(self, secret_names: Sequence[str] = (), data_folder: str | None = None) -> None:
        self._patterns = tuple(folded(name) for name in (*NEVER, *secret_names))
        self._secret = re.compile("|".join(translate(pattern) for pattern in self._patterns)).match
        self._data = tuple(folded(part) for part in data_folder.split("/")) if data_folder else ()

    @property
    def patterns(self) -> tuple[str, ...]:
        """The names that are never opened; `*` stands for anything."""
        return self._patterns

    def check(self, path: str) -> tuple[str, ...]:
        """The parts of a path below the project root, or a refusal that does not depend on what exists there."""
        pieces = [piece for part in path.split("/") for piece in _SEPARATORS.split(folded(part))]
        if path.startswith(("/", "\\")) or folded(path[:1]) == "/" or _DRIVE.match(path):
            raise PathNotAllowed("Absolute paths not allowed", path=path, hint="Name it relative to the project root")
        if ".." in pieces:
            raise PathNotAllowed(path=path, hint="Name it relative to the project root, without '..'")
        parts = tuple(part for part in path.split("/") if part not in ("", "."))
        if self.blocks(parts) or self.blocks(pieces):
            raise PathDenied(path=path, hint="Secrets, .git, node_modules and the data folder are not readable here")
        return parts

    def blocks(self, parts: Sequence[str]) -> bool:
        """Whether one of the parts is never opened."""
        names = [folded(part) for part in parts]
        if self._data and tuple(names[: len(self._data)]) == self._data:
            return True
        return any(self._secret(name) and name not in EXAMPLES for name in names)

    def searchable(self, path: str) -> bool:
        """Whether a search may show this path."""
        parts = path.split("/")
        return not self.blocks(parts) and EXCLUDED.isdisjoint(folded(part) for part in parts)


def folded(part: str) -> str:
    """A name as a forgiving file system would compare it."""
    if part.isascii():
        return part.lower()
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", part).casefold())
    return "".join(char for char in plain if unicodedata.category(char) != "Cf")
