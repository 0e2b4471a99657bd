"""Wake: those who wait for a topic hear when it stirs, in this process or another. Only a hint: rows are the truth."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from shopfloor.domain.actors import OPERATOR
from shopfloor.repositories.work import Works

_REMEMBERED = 100_000
_PAGE = 1000


class Wake:
    """Topics, when they last stirred, and who waits for them."""

    def __init__(self, works: Works) -> None:
        self._works = works
        self._lock = threading.Lock()
        self._count = 0
        self._forgotten = 0
        self._stirred: dict[str, int] = {}
        self._waiting: dict[str, list[Callable[[], object]]] = {}
        self._seen: int | None = None
        self._stop: Callable[[], None] = lambda: None

    def start(self) -> bool:
        """Begin to hear of commits; from here on a mark misses nothing. False when it had begun before."""
        if self._seen is not None:
            return False
        self._seen = self._works.read(lambda work: work.outbox.newest(), OPERATOR)
        self._stop = self._works.store.listen(self._heard)
        return True

    def stop(self) -> None:
        self._stop()

    def rouse(self) -> None:
        """Wake everybody, also whoever has looked and is about to wait."""
        with self._lock:
            self._count += 1
            self._forgotten = self._count
            self._stirred.clear()
            rings = [ring for waiting in self._waiting.values() for ring in waiting]
            self._waiting.clear()
        for ring in rings:
            ring()

    def mark(self) -> int:
        """A point in time; taken before looking, so that nothing can happen unseen between looking and waiting."""
        return self._count

    async def wait(self, topic: str, since: int, seconds: float) -> None:
        """Return when the topic stirred after the mark, or when the time is up."""
        loop = asyncio.get_running_loop()
        stirred: asyncio.Future[None] = loop.create_future()
        ring = self._ring(topic, since, lambda: loop.call_soon_threadsafe(_settle, stirred))
        try:
            async with asyncio.timeout(max(seconds, 0)):  # wait_for may swallow a cancellation
                await stirred
        except TimeoutError:
            return
        finally:
            self._leave(topic, ring)

    def wait_here(self, topic: str, since: int, seconds: float) -> None:
        """The same for a thread that has nothing else to do."""
        stirred = threading.Event()
        ring = self._ring(topic, since, stirred.set)
        try:
            stirred.wait(max(seconds, 0))
        finally:
            self._leave(topic, ring)

    def _ring(self, topic: str, since: int, ring: Callable[[], object]) -> Callable[[], object]:
        with self._lock:
            late = self._stirred.get(topic, self._forgotten) > since
            if not late:
                self._waiting.setdefault(topic, []).append(ring)
        if late:
            ring()
        return ring

    def _leave(self, topic: str, ring: Callable[[], object]) -> None:
        with self._lock:
            waiting = self._waiting.get(topic, [])
            if ring in waiting:
                waiting.remove(ring)
            if not waiting:
                self._waiting.pop(topic, None)

    def _heard(self, topics: frozenset[str]) -> None:
        """An empty set means that another process wrote something."""
        known = topics or self._read_topics()
        if known is None:
            self.rouse()
        else:
            self._stir(known)

    def _read_topics(self) -> frozenset[str] | None:
        """What others wrote about; None when that cannot be told."""
        if self._works.store.engine == "postgres" or self._seen is None:
            return None  # numbers of PostgreSQL do not arrive in order: everybody looks
        seen = self._seen
        self._seen, topics = self._works.read(lambda work: work.outbox.stirred_since(seen, _PAGE), OPERATOR)
        return topics

    def _stir(self, topics: frozenset[str]) -> None:
        with self._lock:
            self._count += 1
            if len(self._stirred) > _REMEMBERED:
                self._stirred.clear()
                self._forgotten = self._count
            for topic in topics:
                self._stirred[topic] = self._count
            rings = [ring for topic in topics for ring in self._waiting.pop(topic, [])]
        for ring in rings:
            ring()


def _settle(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(None)
