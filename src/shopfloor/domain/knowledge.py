"""What a project knows: its files, what was found in them, and what the team has learned."""

from __future__ import annotations

from dataclasses import dataclass, field

DISCOVERY_TYPES = ("pattern", "rule", "decision", "issue")
SOURCES = ("discovery", "session", "decision", "task", "mail", "code")


@dataclass(frozen=True, slots=True)
class Discovery:
    """Something that somebody learned about the project and wrote down."""

    id: int
    type: str
    content: str
    module: str | None
    author: str
    session: str | None
    supersedes: int | None
    superseded_by: int | None
    created_at: int
    files: dict[str, bytes] = field(default_factory=dict)
    """The digests of the files it is about, as they were then."""


@dataclass(frozen=True, slots=True)
class Match:
    """One line that a pattern was found in."""

    file: str
    line: int
    column: int
    text: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search by pattern came back with; cut short, its totals are lower bounds."""

    matches: tuple[Match, ...]
    total: int
    files_searched: int
    milliseconds: int
    truncated: bool
