"""The topic hub: the one subscription of this process to the store's notifications.

Waiting calls, the pages' streams and the dispatcher all wait here. A notification is only a hint: the rows are the
truth, and a waiter always reads them again. A waiter takes a `checkpoint` before it reads, so that a commit between its
read and its wait wakes it at once instead of being lost.

The store calls the hub on the thread that committed (SQLite's writer, PostgreSQL's notifier or listener), so
callbacks must be short and must not write.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

from shopfloor.domain.principals import OPERATOR
from shopfloor.errors import ShopfloorError
from shopfloor.repositories.uow import Database
from shopfloor.store.listeners import ANY_TOPIC, guard
from shopfloor.store.protocol import Callback

CALLS = "calls"
"""The topic of the log's timeline. Rows of the log have no event of their own, so the hub polls for new ones."""

CALLS_POLL_SECONDS = 1.0
MAX_REMEMBERED_TOPICS = 100_000
MAX_EVENTS_READ = 1000
"""Maximum number of events of another process whose topics are read; beyond it, every waiter is woken."""

_log = logging.getLogger("shopfloor.topics")


class TopicHub:
    """Topics, when each was last notified, and their waiters."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._count = 0
        self._woke_all_at = 0
        self._notified_at: dict[str, int] = {}
        self._waiters: dict[str, list[Callable[[], object]]] = {}
        self._subscribers: tuple[tuple[frozenset[str], Callback], ...] = ()
        self._newest_event = 0
        self._unsubscribe_from_store: Callable[[], None] | None = None
        self._stopping = threading.Event()
        self._calls_poller: threading.Thread | None = None

    def start(self) -> bool:
        """Subscribe to the store; from here on a checkpoint misses nothing. Return False if already started."""
        with self._lock:
            # Started on first use: a command that only calls one tool needs no listener.
            if self._unsubscribe_from_store is not None or self._stopping.is_set():
                return False
            self._newest_event = self._database.read(lambda uow: uow.outbox.newest_id(), OPERATOR)
            self._unsubscribe_from_store = self._database.store.listen(self._receive)
            return True

    def stop(self) -> None:
        """Wake every waiter once, and end the subscription to the store."""
        self._stopping.set()
        self.wake_all()
        with self._lock:
            self._subscribers = ()
            unsubscribe, poller = self._unsubscribe_from_store, self._calls_poller
        if unsubscribe is not None:
            unsubscribe()
        if poller is not None:
            poller.join()

    def subscribe(self, callback: Callback, *topics: str) -> Callable[[], None]:
        """Call `callback` with the notified topics if they include one of `topics`; without `topics`, always.

        An empty set of notified topics (`ANY_TOPIC`) means that anything may have changed; every subscriber gets it.
        Return the function that ends the subscription.
        """
        self.start()
        subscriber = (frozenset(topics), guard(callback))
        # Replaced, never changed: `_call_subscribers` reads it without the lock.
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)
            if CALLS in topics or not topics:
                self._start_calls_poller()

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers = tuple(each for each in self._subscribers if each is not subscriber)

        return unsubscribe

    def checkpoint(self) -> int:
        """Return the current checkpoint, to be taken before reading the rows."""
        # Without the lock: a slightly stale count only makes the waiter read once more.
        return self._count

    async def wait(self, topic: str, since: int, seconds: float) -> None:
        """Return once the topic is notified after the checkpoint `since`, or when the time is up."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        wake = self._add_waiter(topic, since, lambda: loop.call_soon_threadsafe(_resolve, woken))
        try:
            async with asyncio.timeout(max(seconds, 0)):  # wait_for may swallow a cancellation
                await woken
        except TimeoutError:
            return
        finally:
            self._remove_waiter(topic, wake)

    def wait_blocking(self, topic: str, since: int, seconds: float) -> None:
        """Wait as `wait` does, blocking this thread."""
        # An Event suffices here: this thread has nothing else to do, and the call is rare.
        woken = threading.Event()
        wake = self._add_waiter(topic, since, woken.set)
        try:
            woken.wait(max(seconds, 0))
        finally:
            self._remove_waiter(topic, wake)

    def wake_all(self) -> None:
        """Wake every subscriber, every waiter, and each future waiter with an earlier checkpoint."""
        self._wake_every_waiter()
        self._call_subscribers(ANY_TOPIC)

    def publish(self, topics: frozenset[str]) -> None:
        """Notify waiters and subscribers of these topics."""
        self._wake_waiters(topics)
        self._call_subscribers(topics)

    def _receive(self, topics: frozenset[str]) -> None:
        """Handle a notification of the store; ANY_TOPIC means that another process committed something."""
        known = topics or self._read_topics_of_others()
        if known is None:
            self._wake_every_waiter()
        else:
            self._wake_waiters(known)
        self._call_subscribers(topics)

    def _wake_waiters(self, topics: frozenset[str]) -> None:
        with self._lock:
            self._count += 1
            # Forgetting topics must not lose a wake-up, so every topic counts as notified now.
            if len(self._notified_at) > MAX_REMEMBERED_TOPICS:
                self._notified_at.clear()
                self._woke_all_at = self._count
            for topic in topics:
                self._notified_at[topic] = self._count
            wakes = [wake for topic in topics for wake in self._waiters.pop(topic, [])]
        for wake in wakes:
            wake()

    def _read_topics_of_others(self) -> frozenset[str] | None:
        """Return the topics of other processes' events, or None if they are unknown."""
        if self._database.store.engine == "postgres":
            return None  # event numbers of PostgreSQL become visible out of order, so some would be skipped
        seen = self._newest_event
        self._newest_event, topics = self._database.read(
            lambda uow: uow.outbox.list_topics_since(seen, MAX_EVENTS_READ), OPERATOR
        )
        return topics

    def _wake_every_waiter(self) -> None:
        with self._lock:
            self._count += 1
            self._woke_all_at = self._count
            self._notified_at.clear()
            wakes = [wake for waiters in self._waiters.values() for wake in waiters]
            self._waiters.clear()
        for wake in wakes:
            wake()

    def _call_subscribers(self, topics: frozenset[str]) -> None:
        for wanted, callback in self._subscribers:
            if not topics or not wanted or wanted & topics:
                callback(topics)

    def _add_waiter(self, topic: str, since: int, wake: Callable[[], object]) -> Callable[[], object]:
        # Notified since the checkpoint, perhaps while the rows were read: the waiter must read them again at once.
        with self._lock:
            is_late = self._notified_at.get(topic, self._woke_all_at) > since
            if not is_late:
                self._waiters.setdefault(topic, []).append(wake)
        if is_late:
            wake()
        return wake

    def _remove_waiter(self, topic: str, wake: Callable[[], object]) -> None:
        with self._lock:
            waiters = self._waiters.get(topic, [])
            if wake in waiters:
                waiters.remove(wake)
            if not waiters:
                self._waiters.pop(topic, None)

    def _start_calls_poller(self) -> None:
        if self._calls_poller is None or not self._calls_poller.is_alive():
            self._calls_poller = threading.Thread(target=self._poll_calls, name="shopfloor-topics", daemon=True)
            self._calls_poller.start()

    def _poll_calls(self) -> None:
        """Poll for new log rows once per second: one query for all open pages, none without a page."""
        newest_seen: int | None = None
        while not self._stopping.wait(0 if newest_seen is None else CALLS_POLL_SECONDS):
            with self._lock:
                # Decided under the lock: a page that subscribes now either keeps this poller or starts another.
                if not any(CALLS in wanted or not wanted for wanted, _ in self._subscribers):
                    self._calls_poller = None
                    return
            try:
                newest = self._database.read(lambda uow: uow.decisions.newest_call_id(), OPERATOR)
            except ShopfloorError as error:
                _log.warning("cannot read the log: %s", error)
                self._stopping.wait(CALLS_POLL_SECONDS)
                continue
            if newest_seen is not None and newest != newest_seen:
                self.publish(frozenset({CALLS}))
            newest_seen = newest


def _resolve(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(None)
