"""A floor behind real HTTP, in a thread of this process, for tests that need both sides."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from shopfloor.serving import Shopfloor


@dataclass(frozen=True, slots=True)
class Served:
    """A floor and where it is."""

    floor: Shopfloor
    url: str

    def user(self, name: str) -> httpx2.Client:
        """An HTTP client with the token of a user, who is added when there is none."""
        if name in {person.name for person in self.floor.users()}:
            token = self.floor.issue_token(user=name)[1]
        else:
            token = self.floor.add_user(name)[1]
        return httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=30)

    def tasks(self, user: str) -> list[Any]:
        found: list[Any] = self.floor.call("todo_direct", "list_tasks", {"user_id": user})
        return found

    def titles(self, user: str) -> list[str]:
        return [task["title"] for task in self.tasks(user)]


@contextmanager
def served(floor: Shopfloor) -> Iterator[Served]:
    """Serve the floor for as long as the block lasts."""
    ready: threading.Event = threading.Event()
    found: dict[str, Any] = {}

    async def serve() -> None:
        found["stop"], found["loop"] = asyncio.Event(), asyncio.get_running_loop()
        async with floor.serving(port=0) as url:
            found["url"] = url
            ready.set()
            await found["stop"].wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait(30)
    try:
        yield Served(floor, found["url"])
    finally:
        found["loop"].call_soon_threadsafe(found["stop"].set)
        thread.join(30)
