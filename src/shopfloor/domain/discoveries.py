"""Discoveries: patterns, rules, decisions and issues that the team records about the project."""

from __future__ import annotations

from dataclasses import dataclass, field

DISCOVERY_TYPES = ("pattern", "rule", "decision", "issue")


@dataclass(frozen=True, slots=True)
class Discovery:
    """A recorded pattern, rule, decision or issue."""

    id: int
    type: str
    content: str
    module: str | None
    author: str
    session: str | None
    supersedes: int | None
    superseded_by: int | None
    created_at: int
    # Digests of the files it is about, taken when it was recorded.
    files: dict[str, bytes] = field(default_factory=dict)
