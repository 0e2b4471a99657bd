"""The report of a crew: which tasks were merged without changes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from shopfloor.domain.crews import Merge, MergeState
from shopfloor.runner.crew_report import list_unchanged
from shopfloor.runner.crew_store import Board


def make_merge(task: int, commit: str | None, at: int, state: MergeState = MergeState.MERGED) -> Merge:
    facts = {"crew": "team", "branch": "b", "commit": "c", "attempts": 0, "output": None, "approved_by": None}
    return Merge(task=task, state=state, merged_commit=commit, created_at=0, updated_at=at, **facts)  # type: ignore[arg-type]


def test_a_task_whose_merge_added_no_commit_is_without_changes():
    merges = [
        make_merge(1, "base", at=1),
        make_merge(4, "second", at=4),
        make_merge(2, "first", at=2),
        make_merge(3, "first", at=3),
        make_merge(5, None, at=5, state=MergeState.QUEUED),
    ]
    board = cast("Board", SimpleNamespace(crew=SimpleNamespace(base="base"), merges=merges))
    assert list_unchanged(board) == [1, 3]
