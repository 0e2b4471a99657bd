"""The driver of a crew keeps the newest status, and lets git end what it has begun."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from shopfloor.runner.crew import CrewDriver
from shopfloor.runner.crew_merger import CrewMerger


class StatusStore:
    """A store whose newest status is known."""

    name = "crew"

    async def load_status(self) -> str:
        return "newest"


async def test_a_slow_read_does_not_hide_a_newer_status():
    store: Any = StatusStore()
    nothing: Any = None
    first: Any = "first"
    driver = CrewDriver(nothing, nothing, store, nothing, first, nothing)
    changed, loaded = asyncio.Event(), asyncio.Event()

    async def wait_for_change() -> Any:
        await changed.wait()
        return "newest"

    async def load_slowly() -> Any:
        await loaded.wait()
        return "older"

    waiting = asyncio.create_task(driver._read_status(wait_for_change))
    loading = asyncio.create_task(driver._read_status(load_slowly))
    await asyncio.sleep(0)
    changed.set()
    await waiting
    loaded.set()
    await loading
    status: Any = driver._status
    assert status == "newest"


class MergedStore(StatusStore):
    """A store that takes note of a merge."""

    async def record_merged(self, task: int, commit: str) -> None:
        assert (task, commit) == (1, "c" * 40)


class SlowWorktrees:
    """Worktrees whose removal waits for a signal."""

    def __init__(self) -> None:
        self.begun, self.released = asyncio.Event(), asyncio.Event()
        self.removed: list[str] = []

    async def advance(self, commit: str) -> bool:
        return True

    def task_folder(self, task: int) -> str:
        return f"folder-{task}"

    def task_branch(self, task: int) -> str:
        return f"branch-{task}"

    async def remove_worktree(self, folder: str) -> None:
        self.begun.set()
        await self.released.wait()
        self.removed.append(folder)

    async def delete_branch(self, branch: str) -> None:
        self.removed.append(branch)


class NoView:
    def show(self, event: str, **facts: Any) -> None:
        pass


async def test_the_end_of_a_crew_does_not_cut_off_the_removal_of_a_merged_worktree():
    store: Any = MergedStore()
    slow: Any = SlowWorktrees()
    nothing: Any = None
    merger = CrewMerger(store, nothing, slow, NoView())
    merging = asyncio.create_task(merger.complete(1, "c" * 40))
    await slow.begun.wait()
    # As the end of a crew does with the merge queue.
    merging.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await merging
    assert slow.removed == []
    slow.released.set()
    await merger.end_removals()
    assert slow.removed == ["folder-1", "branch-1"]
