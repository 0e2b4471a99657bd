"""Live pages: what changed is rendered once and sent to everybody who looks at the same thing with the same rights."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from shopfloor.app import Floor
from shopfloor.errors import ShopfloorError, Unauthenticated

PAUSE = 1.0
"""Seconds between two renderings of the same thing, however much happens."""

HEARTBEAT = 15.0

Render = Callable[[], Awaitable[dict[str, str | None]]]


@dataclass(eq=False)
class Shared:
    """One thing that some look at: rendered by one of them, for all."""

    topics: tuple[str, ...]
    render: Render
    pause: float
    lookers: int = 0
    latest: str = ""
    version: int = 0
    stirred: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    task: asyncio.Task[None] | None = None

    def concerns(self, topics: frozenset[str]) -> bool:
        """Whether these topics are about this; no topic at all means that anything may have changed."""
        return not topics or any(topic.startswith(self.topics) for topic in topics)


class Streams:
    """All open streams of one server."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._shared: dict[str, Shared] = {}
        self._deaf: Callable[[], None] | None = None
        self.rendered = 0

    @property
    def open(self) -> int:
        return sum(shared.lookers for shared in self._shared.values())

    async def events(
        self, key: str, topics: tuple[str, ...], pause: float, render: Render, still: Callable[[], Awaitable[None]]
    ) -> AsyncIterator[str]:
        """The lines of one stream. `still` raises when its looker may no longer look."""
        shared = self._join(key, topics, pause, render)
        seen = -1 if shared.latest else 0
        try:
            yield "retry: 2000\nevent: ready\ndata: {}\n\n"
            while not self._floor.stopping:
                try:
                    async with asyncio.timeout(HEARTBEAT), shared.changed:
                        await shared.changed.wait_for(lambda now=seen: shared.version != now or self._floor.stopping)  # type: ignore[misc]
                except TimeoutError:
                    await still()
                    yield ": still here\n\n"
                    continue
                seen = shared.version
                if shared.latest and not self._floor.stopping:
                    yield f"event: changed\ndata: {shared.latest}\n\n"
        except Unauthenticated:
            yield "event: signed-out\ndata: {}\n\n"
        finally:
            self._leave(key, shared)

    def _join(self, key: str, topics: tuple[str, ...], pause: float, render: Render) -> Shared:
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = Shared(topics, render, pause)
            shared.task = asyncio.create_task(self._keep(shared))
        shared.render = render
        shared.lookers += 1
        shared.stirred.set()  # something may have changed since the page was made
        if self._deaf is None:
            loop = asyncio.get_running_loop()
            self._deaf = self._floor.live.hear(lambda topics: _safely(loop, self._heard, topics))
        return shared

    def _leave(self, key: str, shared: Shared) -> None:
        shared.lookers -= 1
        if shared.lookers == 0 and self._shared.get(key) is shared:
            del self._shared[key]
            if shared.task is not None:
                shared.task.cancel()
        if not self._shared and self._deaf is not None:
            self._deaf()
            self._deaf = None

    def _heard(self, topics: frozenset[str]) -> None:
        for shared in self._shared.values():
            if shared.concerns(topics):
                shared.stirred.set()

    async def _keep(self, shared: Shared) -> None:
        while True:
            await shared.stirred.wait()
            shared.stirred.clear()
            if not self._floor.stopping:
                await self._render(shared)
            async with shared.changed:
                shared.changed.notify_all()
            if self._floor.stopping:
                return
            await asyncio.sleep(shared.pause)

    async def _render(self, shared: Shared) -> None:
        try:
            fresh = json.dumps(await shared.render())
        except ShopfloorError:
            return  # the next change shows it; a page that may no longer look hears so at its own heartbeat
        self.rendered += 1
        if fresh != shared.latest:
            shared.latest = fresh
            shared.version += 1


def _safely(loop: asyncio.AbstractEventLoop, hear: Callable[[frozenset[str]], None], topics: frozenset[str]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(hear, topics)
