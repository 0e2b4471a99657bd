"""Notice that PostgreSQL has stopped answering, and end the transactions that wait for it.

A server that is suspended, or behind a network that drops packets, keeps its connections open: a statement would wait
for as long as that lasts. Calls to a paused server were answered after more than 90 s; with the watchdog, within 5 s.

A slow statement is left alone: a server counts as away only if it accepts no new connection and answers no other
statement at the same time. On a busy machine a new connection alone can exceed its timeout.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread

import psycopg
from psycopg.rows import TupleRow

from shopfloor.errors import StoreUnreachable
from shopfloor.store.postgres_connection import Session

TICK_SECONDS = 0.25
STALL_SECONDS = 1.5
"""How long a transaction may take before the watchdog checks whether the server is there."""
PROBE_TIMEOUT_SECONDS = 2
"""The shortest that libpq allows for a connection."""
PROBE_INTERVAL_SECONDS = 1.0


class Watchdog:
    """One thread, and the sessions that are in a transaction."""

    def __init__(self, connect: Callable[[], psycopg.Connection[TupleRow]]) -> None:
        self._connect = connect
        self._busy: dict[Session, float] = {}
        self._mutex = Lock()
        self._probing = Lock()
        self._probed_at = float("-inf")
        self._answered_at = float("-inf")
        self._away = False
        self._closing = Event()
        self._thread = Thread(target=self._run_loop, name="shopfloor-watchdog", daemon=True)
        self._thread.start()

    @property
    def is_away(self) -> bool:
        """True from a connection that failed until one that succeeds."""
        return self._away

    def begin(self, session: Session) -> None:
        """Watch a session until `end`."""
        with self._mutex:
            self._busy[session] = time.monotonic()

    def end(self, session: Session) -> None:
        # Under the mutex: once this returns, no shutdown can hit the next user of the session.
        with self._mutex:
            self._busy.pop(session, None)
            self._answered_at = max(self._answered_at, session.wire.answered_at)

    def check(self) -> None:
        """Raise StoreUnreachable if the server accepts no connection. Concurrent callers share one attempt."""
        self._probe()
        if self._away:
            raise StoreUnreachable

    def look_again(self) -> None:
        """Check at once whether a server that was away is back."""
        if self._away:
            self._probed_at = float("-inf")
            self._probe()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _run_loop(self) -> None:
        while not self._closing.wait(TICK_SECONDS):
            with self._mutex:
                oldest = min(self._busy.values(), default=float("inf"))
            if self._away or oldest < time.monotonic() - STALL_SECONDS:
                self._probe()

    def _probe(self) -> None:
        with self._probing:
            began = time.monotonic()
            if began < self._probed_at + PROBE_INTERVAL_SECONDS:
                return
            try:
                self._connect().close()
            except psycopg.errors.ConnectionTimeout:
                self._away = not self._has_answered_since(began)
                if self._away:
                    self._end_sessions(began)
            except psycopg.Error as error:
                # A server that rejects the connection is there, such as one with too many connections.
                self._away = "FATAL" not in str(error)
            else:
                self._away = False
            self._probed_at = time.monotonic()

    def _has_answered_since(self, moment: float) -> bool:
        with self._mutex:
            return max([self._answered_at, *(session.wire.answered_at for session in self._busy)]) > moment

    def _end_sessions(self, before: float) -> None:
        """Shut down the connections of transactions that began before the probe, so that their callers get an error."""
        with self._mutex:
            for session, began in self._busy.items():
                if began < before:
                    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(session.pgconn.socket)) as end:
                        end.shutdown(socket.SHUT_RDWR)
