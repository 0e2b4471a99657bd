"""Wake-ups between processes on PostgreSQL: hints, sent outside of the transactions they tell of."""

from __future__ import annotations

import json
import logging
import os
import selectors
import time
import uuid
from collections.abc import Callable, Iterator
from threading import Condition, Event, Lock, Thread

import psycopg
from psycopg.rows import TupleRow

from shopfloor.errors import StoreUnreachable
from shopfloor.store.listeners import LOOK, Listeners

CHANNEL = "shopfloor"
PAYLOAD = 7_900
MOST_PAYLOADS = 8
GAP = 0.005
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0

_log = logging.getLogger("shopfloor.store")

Connect = Callable[[], psycopg.Connection[TupleRow]]


class Notifier:
    """The thread that tells of commits: this process at once, the others by one NOTIFY for all that came up."""

    def __init__(self, connect: Connect, listeners: Listeners, name: str) -> None:
        self._connect = connect
        self._listeners = listeners
        self._name = name
        self._topics: set[str] = set()
        self._changed = Condition()
        self._closed = False
        self._raw: psycopg.Connection[TupleRow] | None = None
        self._missed = False
        self._thread = Thread(target=self._work, name="shopfloor-notifier", daemon=True)
        self._thread.start()

    def tell(self, topics: list[str]) -> None:
        with self._changed:
            self._topics.update(topics)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()
        if self._raw is not None:
            self._raw.close()

    def _work(self) -> None:
        unsent: set[str] = set()
        due = 0.0
        while (topics := self._next(due - time.monotonic() if unsent else None)) or unsent:
            if topics:
                self._listeners.tell(topics)
                unsent |= topics
            if time.monotonic() >= due or self._closed:
                self._send(frozenset(unsent))
                unsent.clear()
                due = time.monotonic() + GAP

    def _next(self, wait: float | None) -> frozenset[str]:
        """What has come up, at the latest after `wait` seconds; nothing once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._topics or self._closed, wait)
            topics = frozenset(self._topics)
            self._topics.clear()
            return topics

    def _send(self, topics: frozenset[str]) -> None:
        if self._missed:
            topics = LOOK  # something was not told: they had better look everywhere
        try:
            if self._raw is None or self._raw.closed:
                self._raw = self._connect()
            for payload in payloads(self._name, topics):
                self._raw.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload), prepare=True)
            self._missed = False
        except (psycopg.Error, StoreUnreachable) as error:
            _log.warning("the other replicas could not be told: %s", error)
            self._missed, self._raw = True, None


class Listening:
    """The thread that hears what other processes tell. It reconnects for as long as it lives."""

    def __init__(self, connect: Connect, listeners: Listeners, name: str) -> None:
        self._connect = connect
        self._listeners = listeners
        self._name = name
        self._closed = Event()
        self._awake, self._alarm = os.pipe()
        self._lock = Lock()
        self._thread: Thread | None = None

    def start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = Thread(target=self._work, name="shopfloor-listener", daemon=True)
                self._thread.start()

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            os.write(self._alarm, b"x")
        if self._thread is not None:
            self._thread.join()
        os.close(self._awake)
        os.close(self._alarm)

    def _work(self) -> None:
        pause = FIRST_PAUSE
        while not self._closed.is_set():
            try:
                with self._connect() as raw:
                    raw.execute(f"LISTEN {CHANNEL}")
                    pause = FIRST_PAUSE
                    self._listeners.tell(LOOK)  # what was told before was not heard
                    self._hear(raw)
            except (psycopg.Error, StoreUnreachable) as error:
                _log.warning("not listening to the other replicas: %s", error)
                self._closed.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    def _hear(self, raw: psycopg.Connection[TupleRow]) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(raw.fileno(), selectors.EVENT_READ)
            selector.register(self._awake, selectors.EVENT_READ)
            while not self._closed.is_set():
                told = list(self._told(raw))
                if told:
                    self._listeners.tell(LOOK if LOOK in told else LOOK.union(*told))
                selector.select()

    def _told(self, raw: psycopg.Connection[TupleRow]) -> Iterator[frozenset[str]]:
        for notice in raw.notifies(timeout=0):
            try:
                sender, *topics = json.loads(notice.payload)
            except (ValueError, TypeError):
                sender, topics = "", []  # not one of ours: better to look than to miss something
            if sender != self._name:
                yield frozenset(topics)


def own_name() -> str:
    """A name by which this store knows its own notices."""
    return uuid.uuid4().hex[:12]


def payloads(name: str, topics: frozenset[str]) -> list[str]:
    """JSON lists of the sender and its topics, each short enough; too many topics become one "look"."""
    found: list[str] = []
    batch: list[str] = []
    size = base = len(json.dumps([name]))
    for topic in sorted(topics):
        length = len(json.dumps(topic)) + 2
        if base + length > PAYLOAD:
            return [json.dumps([name])]
        if size + length > PAYLOAD:
            found.append(json.dumps([name, *batch]))
            batch, size = [], base
        batch.append(topic)
        size += length
    found.append(json.dumps([name, *batch]))
    return found if len(found) <= MOST_PAYLOADS else [json.dumps([name])]
