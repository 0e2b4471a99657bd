"""Lines that a pattern matches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Match:
    """One matching line, with the lines around it."""

    file: str
    line: int
    column: int
    text: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GrepResult:
    """The matches of one search by pattern. When `truncated`, the totals are lower bounds."""

    matches: tuple[Match, ...]
    total: int
    files_searched: int
    milliseconds: int
    truncated: bool
