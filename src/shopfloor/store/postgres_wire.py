"""Statements sent to PostgreSQL straight over libpq.

psycopg's cursors cost twice the CPU and drop every prepared statement at each rollback. Here a statement is prepared
once per connection. BEGIN, SAVEPOINT, RELEASE and statements whose result is not needed are sent with the next
statement in libpq's pipeline mode, so that they cost no round trip of their own.

The rule: pipeline mode is entered for one group of commands and always left before the next. If it cannot be left,
a result is still under way, and the connection is closed.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from time import monotonic
from typing import Any, Self, cast

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow

from shopfloor.store.protocol import Row

DONE = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
_AUTO = [PyFormat.AUTO]

Command = bytes | tuple[str, Sequence[Any]]
"""A plain command, or a statement with its values."""
_Key = tuple[str, tuple[int, ...]]


class Wire:
    """The statements of one connection: prepared at first use, sent together with what was held back."""

    def __init__(self, raw: psycopg.Connection[TupleRow], max_prepared: int) -> None:
        self._pgconn = raw.pgconn
        self._max_prepared = max_prepared
        self._transformer = Transformer(raw)
        self._prepared: dict[_Key, bytes] = {}
        self._names = 0
        self._poll = select.poll()
        self.answered_at = float("-inf")
        """When the server last answered, by the monotonic clock. The watchdog reads it from its own thread."""

    def run(self, held: Sequence[Command], query: str, values: Sequence[Any]) -> PGresult:
        """Run the held-back commands and the query in one round trip and return the query's result."""
        # The common case needs no pipeline mode: nothing was held back, and the statement is prepared.
        if not held:
            params, types, formats = self._dump(values)
            name = self._prepared.get((query, types))
            if name is not None:
                result = self._pgconn.exec_prepared(name, params, formats)
                self.answered_at = monotonic()
                return check_result(result)
        results = self.send_all([*held, (query, values)])
        for result in results:
            check_result(result)
        return results[-1]

    def send_all(self, commands: Sequence[Command]) -> list[PGresult]:
        """Send the commands in one round trip and return all results; raise only if the connection is lost."""
        preparing: dict[int, tuple[_Key, bytes]] = {}
        new: dict[_Key, bytes] = {}
        sent = 0
        with _Pipeline(self._pgconn, self._poll) as pipeline:
            for command in commands:
                if isinstance(command, bytes):
                    self._pgconn.send_query_params(command, None)
                    sent += 1
                    continue
                query, values = command
                params, types, formats = self._dump(values)
                key = (query, types)
                name = self._prepared.get(key) or new.get(key)
                if name is None:
                    name = self._new_name(len(new))
                    self._pgconn.send_prepare(name, query.encode(), types)
                    if name:
                        preparing[sent] = (key, name)
                        new[key] = name
                    sent += 1
                self._pgconn.send_query_prepared(name, params, formats)
                sent += 1
            results = pipeline.results()
        self.answered_at = monotonic()
        # In an aborted transaction PREPARE fails too. Such a statement is prepared again the next time.
        for position, (key, name) in preparing.items():
            if results[position].status == ExecStatus.COMMAND_OK:
                self._prepared[key] = name
        return results

    def _dump(self, values: Sequence[Any]) -> tuple[list[bytes], tuple[int, ...], Any]:
        params = cast("list[bytes]", self._transformer.dump_sequence(values, _AUTO * len(values)))
        return params, self._transformer.types or (), self._transformer.formats

    def _new_name(self, pending: int) -> bytes:
        """Return a name for a statement; once there are too many, the empty name, which is prepared each time."""
        if len(self._prepared) + pending >= self._max_prepared:
            return b""
        self._names += 1
        return b"shopfloor%d" % self._names

    def rows(self, result: PGresult) -> list[Row]:
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)


class _Pipeline:
    """libpq's pipeline mode, left on exit."""

    def __init__(self, pgconn: Any, poll: Any) -> None:
        self._pgconn = pgconn
        self._poll = poll

    def __enter__(self) -> Self:
        self._pgconn.enter_pipeline_mode()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._pgconn.exit_pipeline_mode()
        except psycopg.Error:
            # A result is still under way. The next command would take it for its own.
            self._pgconn.finish()

    def results(self) -> list[PGresult]:
        """Return one result for each command that was sent."""
        self._pgconn.pipeline_sync()
        # Read while sending: a server whose results are not read stops reading, and both sides would deadlock.
        while self._pgconn.flush():
            self._wait(select.POLLIN | select.POLLOUT)
        found: list[PGresult] = []
        while True:
            while self._pgconn.is_busy():
                self._wait(select.POLLIN)
            result = self._pgconn.get_result()
            # None ends the results of one command. A lost connection returns nothing else.
            if result is None:
                if self._pgconn.status == ConnStatus.BAD:
                    raise psycopg.OperationalError("the connection is lost")
            elif result.status == ExecStatus.PIPELINE_SYNC:
                return found
            else:
                found.append(result)

    def _wait(self, events: int) -> None:
        self._poll.register(self._pgconn.socket, events)
        for _, event in self._poll.poll():
            if event & ~select.POLLOUT:
                self._pgconn.consume_input()


def check_result(result: PGresult) -> PGresult:
    if result.status in DONE:
        return result
    raise psycopg.errors.error_from_result(result)
