"""Which replica on a PostgreSQL database leads: the leader runs what must run once per workspace.

The leader holds an advisory lock on a connection of its own. The lock ends with the connection: at once when the
process dies, and by `idle_session_timeout` when it is suspended or its machine has vanished.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event, Thread

import psycopg
from psycopg.rows import TupleRow

from shopfloor.errors import StoreUnreachable

LOCK_CLASS = 0x53484F50
CHECK_INTERVAL_SECONDS = 1.5
SILENCE_SECONDS = 5
"""How long a leader may be silent. Another takes over within this plus CHECK_INTERVAL_SECONDS."""

_SESSION_TIMEOUT = (f"{SILENCE_SECONDS}s", ["idle_session_timeout"])
_KEEPALIVES = {"idle": 2, "interval": 1, "count": 3}

_log = logging.getLogger("shopfloor.store")


class Leadership:
    """The thread that takes and keeps the lock of one workspace."""

    def __init__(self, connect: Callable[[], psycopg.Connection[TupleRow]], workspace: int) -> None:
        self._connect = connect
        self._workspace = workspace
        self._raw: psycopg.Connection[TupleRow] | None = None
        self._held_until = 0.0
        self._stopping = Event()
        self._check()
        self._thread = Thread(target=self._run_loop, name="shopfloor-leadership", daemon=True)
        self._thread.start()

    @property
    def is_held(self) -> bool:
        """True while this process leads. A process that was suspended has to ask again first."""
        return time.monotonic() < self._held_until

    def close(self) -> None:
        """Let another process lead."""
        self._stopping.set()
        self._thread.join()
        self._held_until = 0.0
        if self._raw is not None:
            self._raw.close()

    def _run_loop(self) -> None:
        while not self._stopping.wait(CHECK_INTERVAL_SECONDS):
            self._check()

    def _check(self) -> None:
        # Taken before the query: the server ends a session that has been idle for longer.
        until = time.monotonic() + SILENCE_SECONDS
        try:
            if self._raw is None or self._raw.closed:
                self._raw = self._open()
            if time.monotonic() < self._held_until:
                self._raw.execute("SELECT 1")
                held = True
            else:
                held = self._take_lock(self._raw)
        except (psycopg.Error, StoreUnreachable) as error:
            _log.warning("cannot ask which replica leads: %s", error)
            if self._raw is not None:
                self._raw.close()
            self._raw, held = None, False
        self._held_until = until if held else 0.0

    def _open(self) -> psycopg.Connection[TupleRow]:
        # A new session holds no lock, even if the previous one did.
        self._held_until = 0.0
        raw = self._connect()
        # `idle_session_timeout` exists since PostgreSQL 14.
        raw.execute("SELECT set_config(name, %s, false) FROM pg_settings WHERE name = ANY(%s)", _SESSION_TIMEOUT)
        for name, value in _KEEPALIVES.items():
            raw.execute("SELECT set_config(%s, %s, false)", (f"tcp_keepalives_{name}", str(value)))
        return raw

    def _take_lock(self, raw: psycopg.Connection[TupleRow]) -> bool:
        # A session may take a lock again that it already holds, and a suspended one may still hold it.
        row = raw.execute("SELECT pg_try_advisory_lock(%s, %s)", (LOCK_CLASS, self._workspace % 2**31)).fetchone()
        return bool(row and row[0])
