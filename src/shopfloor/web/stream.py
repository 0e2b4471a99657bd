"""Live pages: a changed page is rendered once and sent to all viewers with the same rights."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from shopfloor.engine import Engine
from shopfloor.errors import ShopfloorError, Unauthenticated

# Interval of the heartbeat of a silent stream, which also checks whether its viewer still has access.
HEARTBEAT_SECONDS = 15.0

Render = Callable[[], Awaitable[dict[str, str | None]]]
CheckAccess = Callable[[], Awaitable[None]]


@dataclass(eq=False)
class SharedPage:
    """A page fragment rendered once and shared by all viewers."""

    topics: tuple[str, ...]
    render: Render
    interval: float
    viewers: int = 0
    latest: str = ""
    version: int = 0
    stale: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    task: asyncio.Task[None] | None = None

    def concerns(self, topics: frozenset[str]) -> bool:
        """Return whether one of these topics may change the page; an empty set means any change."""
        return not topics or any(topic.startswith(self.topics) for topic in topics)


class LiveStreams:
    """All open streams of one server. Its methods run on the event loop, so they need no lock."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._pages: dict[str, SharedPage] = {}
        self._unsubscribe: Callable[[], None] | None = None

    @property
    def open(self) -> int:
        return sum(page.viewers for page in self._pages.values())

    async def stream(
        self, key: str, topics: tuple[str, ...], interval: float, render: Render, check_access: CheckAccess
    ) -> AsyncIterator[str]:
        """Yield the server-sent events of one viewer; viewers with the same key share what is rendered.

        `check_access` raises Unauthenticated once its viewer may no longer see the page.
        """
        page = self._join(key, topics, interval, render)
        # A new viewer immediately gets a page that is already rendered.
        seen = -1 if page.latest else 0
        try:
            yield "retry: 2000\nevent: ready\ndata: {}\n\n"
            while not self._engine.stopping:
                try:
                    async with asyncio.timeout(HEARTBEAT_SECONDS), page.changed:
                        await page.changed.wait_for(lambda seen=seen: page.version != seen or self._engine.stopping)  # type: ignore[misc]
                except TimeoutError:
                    await check_access()
                    yield ": heartbeat\n\n"
                    continue
                seen = page.version
                if page.latest and not self._engine.stopping:
                    yield f"event: changed\ndata: {page.latest}\n\n"
        except Unauthenticated:
            yield "event: signed-out\ndata: {}\n\n"
        finally:
            page.viewers -= 1
            if page.viewers == 0 and self._pages.get(key) is page:
                del self._pages[key]
                if page.task is not None:
                    page.task.cancel()
            if not self._pages and self._unsubscribe is not None:
                self._unsubscribe()
                self._unsubscribe = None

    def _join(self, key: str, topics: tuple[str, ...], interval: float, render: Render) -> SharedPage:
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = SharedPage(topics, render, interval)
            page.task = asyncio.create_task(self._keep_current(page))
        # Rendering makes calls as one of the viewers. The newest is the most likely to be still signed in.
        page.render = render
        page.viewers += 1
        # The page may have changed since the new viewer loaded it.
        page.stale.set()
        if self._unsubscribe is None:
            loop = asyncio.get_running_loop()
            # One subscription for all pages, as long as there is a viewer.
            self._unsubscribe = self._engine.topics.subscribe(lambda topics: self._notify(loop, topics))
        return page

    def _notify(self, loop: asyncio.AbstractEventLoop, topics: frozenset[str]) -> None:
        """Forward a notification to the event loop: it comes from the thread that committed the change."""
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._mark_stale, topics)

    def _mark_stale(self, topics: frozenset[str]) -> None:
        for page in self._pages.values():
            if page.concerns(topics):
                page.stale.set()

    async def _keep_current(self, page: SharedPage) -> None:
        while True:
            await page.stale.wait()
            page.stale.clear()
            if not self._engine.stopping:
                # Errors are not sent: the next change renders the page again, and a viewer without access is signed out
                # at the next heartbeat.
                with suppress(ShopfloorError):
                    rendered = json.dumps(await page.render())
                    if rendered != page.latest:
                        page.latest = rendered
                        page.version += 1
            async with page.changed:
                page.changed.notify_all()
            if self._engine.stopping:
                return
            # Changes in the meantime set `stale` again, and are rendered together.
            await asyncio.sleep(page.interval)
