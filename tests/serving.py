"""A floor behind real HTTP, in a thread of this process, for tests that need both sides."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2

from shopfloor.serving import Shopfloor

T = TypeVar("T")


def away(fn: Callable[[], T]) -> T:
    """What `fn` returns, run on another thread: a test that drives a browser has an event loop on its own."""
    with ThreadPoolExecutor(1) as hand:
        return hand.submit(fn).result()


@dataclass(frozen=True, slots=True)
class Served:
    """A floor and where it is."""

    floor: Shopfloor
    url: str

    def user(self, name: str) -> httpx2.Client:
        """An HTTP client with the token of a user, who is added when there is none."""

        def token() -> str:
            if name in {person.name for person in self.floor.users()}:
                return self.floor.issue_token(user=name)[1]
            return self.floor.add_user(name)[1]

        return httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {away(token)}"}, timeout=30)

    def call(self, user: str, tool: str, **given: Any) -> Any:
        """A call of todo_direct for a user."""
        return away(lambda: self.floor.call("todo_direct", tool, {"user_id": user, **given}))

    def tasks(self, user: str) -> list[Any]:
        found: list[Any] = self.call(user, "list_tasks")
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
