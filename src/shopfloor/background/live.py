"""Live: pages hear when something changed. The store is listened to once, however many pages are open."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from shopfloor.domain.actors import OPERATOR
from shopfloor.errors import ShopfloorError
from shopfloor.repositories.work import Works

CALLS = "calls"
"""The topic of the log's timeline: rows of calls have no event of their own."""

_EVERY = 1.0

Hear = Callable[[frozenset[str]], None]

_log = logging.getLogger("shopfloor.live")


class Live:
    """One ear for all pages of this process; it listens only while somebody wants to hear."""

    def __init__(self, works: Works) -> None:
        self._works = works
        self._lock = threading.Lock()
        self._hearers: tuple[Hear, ...] = ()
        self._unlisten: Callable[[], None] | None = None
        self._stopping = threading.Event()

    def hear(self, hearer: Hear) -> Callable[[], None]:
        """The function that ends it. A hearer gets the topics that stirred; none means that anything may have."""
        with self._lock:
            self._hearers = (*self._hearers, hearer)
            if self._unlisten is None and not self._stopping.is_set():
                self._unlisten = unlisten = self._works.store.listen(self._tell)
                threading.Thread(target=self._watch, args=(unlisten,), name="shopfloor-live", daemon=True).start()
        return lambda: self._leave(hearer)

    def stop(self) -> None:
        """Nobody hears anything any more, except this last word."""
        self._stopping.set()
        self._tell(frozenset())
        with self._lock:
            self._hearers = ()
            self._end()

    def _leave(self, hearer: Hear) -> None:
        with self._lock:
            self._hearers = tuple(each for each in self._hearers if each is not hearer)
            if not self._hearers:
                self._end()

    def _end(self) -> None:
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None

    def _tell(self, topics: frozenset[str]) -> None:
        for hearer in self._hearers:
            hearer(topics)

    def _watch(self, mine: Callable[[], None]) -> None:
        """Look once a second whether there are further calls in the log: one question for all pages."""
        seen: int | None = None
        while self._unlisten is mine and not self._stopping.is_set():
            try:
                newest = self._works.read(lambda work: work.decisions.newest_call(), OPERATOR)
            except ShopfloorError as error:
                _log.warning("the log cannot be read: %s", error)
            else:
                if seen is not None and newest != seen:
                    self._tell(frozenset({CALLS}))
                seen = newest
            self._stopping.wait(_EVERY)
