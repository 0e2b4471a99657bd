"""Notifications between processes on PostgreSQL, sent outside the transactions that they report.

NOTIFY inside the transaction cost 30 to 57 % of the throughput: PostgreSQL commits such transactions one at a time.
Outside, a notification can be lost when its sender dies, so it is only a hint; the rows are the truth.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import time
import uuid
from collections.abc import Callable, Iterable
from threading import Condition, Event, Lock, Thread

import psycopg
from psycopg.rows import TupleRow

from shopfloor.errors import StoreUnreachable
from shopfloor.store.listeners import ANY_TOPIC, Listeners

CHANNEL = "shopfloor"
MAX_PAYLOAD_BYTES = 7_900
"""PostgreSQL allows 8,000."""
MAX_PAYLOADS = 8
SEND_INTERVAL_SECONDS = 0.005
RETRY_SECONDS = 0.5
FIRST_BACKOFF_SECONDS = 0.1
MAX_BACKOFF_SECONDS = 5.0

_log = logging.getLogger("shopfloor.store")

Connect = Callable[[], psycopg.Connection[TupleRow]]


class Notifier:
    """The thread that reports commits: to this process at once, to the others with one NOTIFY per interval."""

    def __init__(self, connect: Connect, listeners: Listeners, name: str) -> None:
        self._connect = connect
        self._listeners = listeners
        self._name = name
        self._topics: set[str] = set()
        self._changed = Condition()
        self._closed = False
        self._raw: psycopg.Connection[TupleRow] | None = None
        self._missed = False
        self._thread = Thread(target=self._run_loop, name="shopfloor-notifier", daemon=True)
        self._thread.start()

    def notify(self, topics: Iterable[str]) -> None:
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

    def _run_loop(self) -> None:
        unsent: set[str] = set()
        due = 0.0
        while True:
            with self._changed:
                wait = due - time.monotonic() if unsent or self._missed else None
                self._changed.wait_for(lambda: self._topics or self._closed, wait)
                topics = frozenset(self._topics)
                self._topics.clear()
            if self._closed and not topics and not unsent:
                return
            if topics:
                self._listeners.notify(topics)
                unsent |= topics
            if time.monotonic() >= due or self._closed:
                self._send(frozenset(unsent))
                unsent.clear()
                due = time.monotonic() + (RETRY_SECONDS if self._missed else SEND_INTERVAL_SECONDS)

    def _send(self, topics: frozenset[str]) -> None:
        # An earlier notification was lost: the others must check everything.
        if self._missed:
            topics = ANY_TOPIC
        # An idle connection may have been dropped, which shows only when it is used: retry once, immediately.
        for _ in range(2):
            try:
                if self._raw is None or self._raw.closed:
                    self._raw = self._connect()
                for payload in build_payloads(self._name, topics):
                    self._raw.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload), prepare=True)
                self._missed = False
                return
            except (psycopg.Error, StoreUnreachable) as error:
                _log.warning("cannot notify the other replicas: %s", error)
                self._missed, self._raw = True, None


class Listener:
    """The thread that receives notifications of other processes. It reconnects as long as it lives."""

    def __init__(self, connect: Connect, listeners: Listeners, name: str) -> None:
        self._connect = connect
        self._listeners = listeners
        self._name = name
        self._closed = Event()
        # `select` cannot wait for an Event, so `close` writes to a pipe that is watched along with the connection.
        self._wake_reader, self._wake_writer = os.pipe()
        self._lock = Lock()
        self._thread: Thread | None = None

    def start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = Thread(target=self._run_loop, name="shopfloor-listener", daemon=True)
                self._thread.start()

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            os.write(self._wake_writer, b"x")
        if self._thread is not None:
            self._thread.join()
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def _run_loop(self) -> None:
        backoff = FIRST_BACKOFF_SECONDS
        while not self._closed.is_set():
            try:
                with self._connect() as raw:
                    raw.execute(f"LISTEN {CHANNEL}")
                    backoff = FIRST_BACKOFF_SECONDS
                    # Notifications before this were lost.
                    self._listeners.notify(ANY_TOPIC)
                    self._receive(raw)
            except (psycopg.Error, StoreUnreachable) as error:
                _log.warning("not listening to the other replicas: %s", error)
                self._closed.wait(backoff)
                backoff = min(backoff * 2, MAX_BACKOFF_SECONDS)

    def _receive(self, raw: psycopg.Connection[TupleRow]) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(raw.fileno(), selectors.EVENT_READ)
            selector.register(self._wake_reader, selectors.EVENT_READ)
            while not self._closed.is_set():
                received = []
                # Before `select`: notifications that came with an earlier result are in libpq's buffer, and do not make
                # the socket readable again.
                for notice in raw.notifies(timeout=0):
                    # A payload that is not ours has no topics: checking everything misses nothing.
                    try:
                        sender, *topics = json.loads(notice.payload)
                    except (ValueError, TypeError):
                        sender, topics = "", []
                    # Own commits were reported to this process when they were made.
                    if sender != self._name:
                        received.append(frozenset(topics))
                if received:
                    self._listeners.notify(ANY_TOPIC if ANY_TOPIC in received else ANY_TOPIC.union(*received))
                selector.select()


def new_sender_name() -> str:
    """Return a name by which this store recognises its own notifications."""
    return uuid.uuid4().hex[:12]


def build_payloads(name: str, topics: frozenset[str]) -> list[str]:
    """Return JSON lists of the sender and its topics, each short enough; too many topics become one ANY_TOPIC."""
    found: list[str] = []
    batch: list[str] = []
    size = base = len(json.dumps([name]))
    for topic in sorted(topics):
        length = len(json.dumps(topic)) + 2
        # It fits into no payload, so the others must check everything.
        if base + length > MAX_PAYLOAD_BYTES:
            return [json.dumps([name])]
        if size + length > MAX_PAYLOAD_BYTES:
            found.append(json.dumps([name, *batch]))
            batch, size = [], base
        batch.append(topic)
        size += length
    found.append(json.dumps([name, *batch]))
    return found if len(found) <= MAX_PAYLOADS else [json.dumps([name])]
