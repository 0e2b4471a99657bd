"""What was written and is not in the index yet, or is there as it was before: one condition for every subject."""

from __future__ import annotations

Change = tuple[int, str]
"""When something changed, and how the index refers to it."""


def unindexed(source: str, ref: str, at: str) -> str:
    """The condition for rows whose passage is not of that time; `at` is NULL where there should be none."""
    return (
        "(SELECT passage.changed_at FROM passage WHERE passage.workspace = :workspace AND passage.root = ''"
        f" AND passage.source = '{source}' AND passage.ref = {ref} AND passage.ordinal = 0) IS DISTINCT FROM {at}"
    )
