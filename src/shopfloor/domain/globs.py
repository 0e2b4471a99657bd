"""Globs over paths, as ripgrep and .gitignore read them: `**`, `*`, `?`, `[…]` and `{a,b}`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice

from shopfloor.errors import InvalidInput

MAX_EXPANSIONS = 64
MAX_BRACES = 32
MAX_DOUBLE_STARS = 4
"""Maximum number of `**` in a glob that becomes a regular expression."""

_SET = re.compile(r"\[(!?)([^\]]+)\]")


def check(glob: str, field: str = "filePattern") -> str:
    """Return the glob, or raise InvalidInput."""
    if "\n" in glob or "\r" in glob:
        raise InvalidInput(f"'{field}' must be one line", field=field, rule="glob")
    if glob.count("{") != glob.count("}") or glob.count("[") != glob.count("]"):
        raise InvalidInput(f"'{field}' has a bracket that is not closed", field=field, rule="glob")
    # Each pair is expanded by a call inside another one.
    if glob.count("{") > MAX_BRACES:
        raise InvalidInput(f"'{field}' has more than {MAX_BRACES} braces", field=field, rule="glob")
    if ".." in glob.split("/"):
        raise InvalidInput(f"'{field}' must not contain '..'", field=field, rule="glob")
    return glob


@lru_cache(maxsize=256)
def to_regex(glob: str, *, backtracks: bool) -> str:
    """Return a regular expression that matches what the glob matches, a leading `!` aside.

    `backtracks` is true for Python's `re`. It would try every way to divide a path among the stars, which takes hours
    for a long name and a dozen stars. The first match of the text between two stars is always enough, so an atomic
    group keeps it. PostgreSQL has no atomic groups and does not need them.
    """
    if glob.count("**") > MAX_DOUBLE_STARS:
        raise InvalidInput(f"A pattern may have at most {MAX_DOUBLE_STARS} '**'", field="path", rule="glob")
    choices = []
    for one in islice(_expand_braces(glob.removeprefix("!")), MAX_EXPANSIONS):
        parts = one.strip("/").split("/")
        if len(parts) == 1 and not one.startswith("/"):
            parts = ["**", *parts]
        # Runs of parts between `**`, which is any number of folders.
        runs = [""]
        for part in parts:
            if part == "**":
                runs.append("")
            else:
                runs[-1] += f"{_part_to_regex(part, backtracks)}/"
        text = _join_runs([runs[0], *filter(None, runs[1:-1]), *runs[1:][-1:]], backtracks)
        # `**` at the end is everything below, and so is a pattern that names a folder.
        choices.append(f"{text}.+" if parts[-1] == "**" else f"{text.removesuffix('/')}(?:/.+)?")
    return f"^(?:{'|'.join(choices)})$"


def _join_runs(runs: list[str], backtracks: bool) -> str:
    """Join runs of folders, with any folders between them. An empty last run matches everything below."""
    first, *rest = runs
    text = first
    for at, run in enumerate(rest, 1):
        if at < len(rest):
            text += f"(?>(?:[^/]+/)*?{run})" if backtracks else f"(?:[^/]+/)*{run}"
        elif run:
            text += f"(?:[^/]+/)*{run}"
    return text


def _part_to_regex(part: str, backtracks: bool) -> str:
    texts, at = [""], 0
    while at < len(part):
        found = _SET.match(part, at)
        if found is not None:
            texts[-1] += _set_to_regex(found[2], negated=bool(found[1]))
            at = found.end()
            continue
        if part[at] == "*":
            texts.append("")
        else:
            texts[-1] += "[^/]" if part[at] == "?" else re.escape(part[at])
        at += 1
    first, *rest = texts
    if not rest:
        return first
    *middle, last = rest
    between = (f"(?>[^/]*?{text})" if backtracks else f"[^/]*{text}" for text in middle if text)
    return f"{first}{''.join(between)}[^/]*{last}"


def _set_to_regex(members: str, *, negated: bool) -> str:
    text, at = "", 0
    while at < len(members):
        first = last = members[at]
        if members[at + 1 : at + 2] == "-" and at + 2 < len(members):
            last, at = members[at + 2], at + 2
        at += 1
        # A reversed range, such as `[z-a]`, matches nothing. In a regular expression it would be an error.
        if first <= last:
            text += re.escape(first) if first == last else f"{re.escape(first)}-{re.escape(last)}"
    if negated:
        return f"[^/{text}]"
    return f"(?!/)[{text}]" if text else "(?!.)."


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
