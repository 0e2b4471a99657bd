"""Globs over paths, as ripgrep and .gitignore read them: `**`, `*`, `?`, `[…]` and `{a,b}`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice

from shopfloor.errors import InvalidInput

MAX_EXPANSIONS = 64
MAX_DOUBLE_STARS = 4
"""Maximum number of `**` in a glob that becomes a regular expression: each multiplies the time of Python's `re`."""

_SET = re.compile(r"\[(!?)([^\]]+)\]")


def check(glob: str, field: str = "filePattern") -> str:
    """Return the glob, or raise InvalidInput."""
    if "\n" in glob or "\r" in glob:
        raise InvalidInput(f"'{field}' must be one line", field=field, rule="glob")
    if glob.count("{") != glob.count("}") or glob.count("[") != glob.count("]"):
        raise InvalidInput(f"'{field}' has a bracket that is not closed", field=field, rule="glob")
    if ".." in glob.split("/"):
        raise InvalidInput(f"'{field}' must not contain '..'", field=field, rule="glob")
    return glob


@lru_cache(maxsize=256)
def to_regex(glob: str) -> str:
    """Return a regular expression for `re` and PostgreSQL that matches what the glob matches, a leading `!` aside."""
    if glob.count("**") > MAX_DOUBLE_STARS:
        raise InvalidInput(f"A pattern may have at most {MAX_DOUBLE_STARS} '**'", field="path", rule="glob")
    choices = []
    for one in islice(_expand_braces(glob.removeprefix("!")), MAX_EXPANSIONS):
        parts = one.strip("/").split("/")
        if len(parts) == 1 and not one.startswith("/"):
            parts = ["**", *parts]
        # `**` at the end is everything below; in the middle it is any number of folders.
        below = parts[-1] == "**"
        text = "".join(r"(?:[^/]+/)*" if part == "**" else f"{_part_to_regex(part)}/" for part in parts)
        text = text.removesuffix("(?:[^/]+/)*") if below else text
        # A pattern that names a folder means everything below it.
        choices.append(f"{text}.+" if below else f"{text.removesuffix('/')}(?:/.+)?")
    return f"^(?:{'|'.join(choices)})$"


def _part_to_regex(part: str) -> str:
    text, at = "", 0
    while at < len(part):
        found = _SET.match(part, at)
        if found is not None:
            members = found[2].replace("\\", r"\\")
            text += f"[{'^/' if found[1] else ''}{members}]"
            at = found.end()
            continue
        text += {"*": "[^/]*", "?": "[^/]"}.get(part[at]) or re.escape(part[at])
        at += 1
    return text


def matches(glob: str, path: str) -> bool:
    """Return whether a path matches. A glob without a slash matches the name alone; a leading `!` negates it."""
    if glob.startswith("!"):
        return not matches(glob[1:], path)
    parts = path.split("/")
    # Each pair of braces multiplies the globs, so a caller could request millions of them.
    for one in islice(_expand_braces(glob), MAX_EXPANSIONS):
        pattern = one.strip("/").split("/")
        if len(pattern) == 1 and not one.startswith("/"):
            pattern = ["**", *pattern]
        # A pattern that names a folder means everything below it.
        if _match_parts(pattern, parts) or _match_parts([*pattern, "**"], parts):
            return True
    return False


def _match_parts(pattern: list[str], parts: list[str]) -> bool:
    """Match the parts of a pattern with those of a path, in time proportional to the product of their numbers."""
    reached = {0}
    for piece in pattern:
        if piece == "**":
            # `**` reaches every position from the first one reached. Recursion would take exponential time for
            # `**/a/**/a/**/a`.
            reached = set(range(min(reached), len(parts) + 1)) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < len(parts) and fnmatchcase(parts[at], piece)}
    return len(parts) in reached


def _expand_braces(glob: str) -> Iterator[str]:
    opening = glob.find("{")
    closing = glob.find("}", opening)
    if opening < 0 or closing < 0:
        yield glob
        return
    for choice in glob[opening + 1 : closing].split(","):
        yield from _expand_braces(glob[:opening] + choice + glob[closing + 1 :])
