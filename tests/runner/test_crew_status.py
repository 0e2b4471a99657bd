"""The driver of a crew keeps the newest status when reads of it overtake each other."""

from __future__ import annotations

import asyncio
from typing import Any

from shopfloor.runner.crew import CrewDriver


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
