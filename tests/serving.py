"""Serve a Shopfloor over HTTP from a thread of the test process, for tests that use both sides."""

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


def run_in_thread(fn: Callable[[], T]) -> T:
    """Run `fn` on another thread and return its result: a test that drives a browser has an event loop on its own."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(fn).result()


@dataclass(frozen=True, slots=True)
class ServedShopfloor:
    """A Shopfloor and the URL at which it is served."""

    shopfloor: Shopfloor
    url: str

    def user(self, name: str) -> httpx2.Client:
        """Return an HTTP client with the token of a user, who is added if missing."""

        def token() -> str:
            if name in {user["id"] for user in self.shopfloor.list_users()}:
                return str(self.shopfloor.issue_token(user=name)["token"])
            return str(self.shopfloor.add_user(name)["token"])

        return httpx2.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {run_in_thread(token)}"}, timeout=300
        )

    def call(self, user: str, tool: str, **arguments: Any) -> Any:
        """Call a tool of todo_direct for a user."""
        return run_in_thread(lambda: self.shopfloor.call("todo_direct", tool, {"user_id": user, **arguments}))

    def tasks(self, user: str) -> list[Any]:
        found: list[Any] = self.call(user, "list_tasks")
        return found

    def titles(self, user: str) -> list[str]:
        return [task["title"] for task in self.tasks(user)]


@contextmanager
def serve_in_thread(shopfloor: Shopfloor) -> Iterator[ServedShopfloor]:
    """Serve the Shopfloor for the duration of the block."""
    ready: threading.Event = threading.Event()
    found: dict[str, Any] = {}

    async def serve() -> None:
        found["stop"], found["loop"] = asyncio.Event(), asyncio.get_running_loop()
        async with shopfloor.serving(port=0) as url:
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
        yield ServedShopfloor(shopfloor, found["url"])
    finally:
        found["loop"].call_soon_threadsafe(found["stop"].set)
        thread.join(30)
