"""Globs over paths, as ripgrep and .gitignore read them: `**`, `*`, `?`, `[…]` and `{a,b}`."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice

from shopfloor.errors import InvalidInput

_EXPANSIONS = 64


def check(glob: str) -> str:
    """The glob, if it can be read as one."""
    if "\n" in glob or "\r" in glob:
        raise InvalidInput("'filePattern' must be one line", field="filePattern", rule="glob")
    if glob.count("{") != glob.count("}") or glob.count("[") != glob.count("]"):
        raise InvalidInput("'filePattern' has a bracket that is not closed", field="filePattern", rule="glob")
    if ".." in glob.split("/"):
        raise InvalidInput("'filePattern' must not contain '..'", field="filePattern", rule="glob")
    return glob


def matches(glob: str, path: str) -> bool:
    """Whether the path fits. Without a slash the glob is about the name alone; `!` in front turns it around."""
    if glob.startswith("!"):
        return not matches(glob[1:], path)
    return any(_matches(one, path) for one in islice(_expanded(glob), _EXPANSIONS))


def _matches(glob: str, path: str) -> bool:
    pattern = glob.strip("/").split("/")
    if len(pattern) == 1 and not glob.startswith("/"):
        pattern = ["**", *pattern]
    # A pattern that names a folder means everything below it.
    return _fits(pattern, path.split("/")) or _fits([*pattern, "**"], path.split("/"))


def _fits(pattern: list[str], parts: list[str]) -> bool:
    """Each part of the pattern against the parts of the path, in time that grows with the product of both."""
    reached = {0}
    for piece in pattern:
        if piece == "**":
            reached = set(range(min(reached), len(parts) + 1)) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < len(parts) and fnmatchcase(parts[at], piece)}
    return len(parts) in reached


def _expanded(glob: str) -> Iterator[str]:
    opening = glob.find("{")
    closing = glob.find("}", opening)
    if opening < 0 or closing < 0:
        yield glob
        return
    for choice in glob[opening + 1 : closing].split(","):
        yield from _expanded(glob[:opening] + choice + glob[closing + 1 :])
