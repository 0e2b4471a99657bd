"""Statements on their way to PostgreSQL and back, straight over libpq.

psycopg's cursors cost twice the CPU, and forget every prepared statement at each rollback.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Any, Self, cast

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow

from shopfloor.store.interface import Row

MOST_PREPARED = 1_000

_DONE = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
_AUTO = [PyFormat.AUTO]


class Wire:
    """One connection's statements: prepared at first use, and what is held back sent along with the next one."""

    def __init__(self, raw: psycopg.Connection[TupleRow]) -> None:
        self._pgconn = raw.pgconn
        self._transformer = Transformer(raw)
        self._prepared: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._names = 0
        self._poll = select.poll()

    def run(self, held: Sequence[bytes], query: str, values: Sequence[Any]) -> PGresult:
        """The result of the query, after the held commands; all in one round trip."""
        params = cast("list[bytes]", self._transformer.dump_sequence(values, _AUTO * len(values)))
        types, formats = self._transformer.types or (), self._transformer.formats
        name = self._prepared.get((query, types))
        if name is not None and not held:
            return _good(self._pgconn.exec_prepared(name, params, formats))
        with _Pipeline(self._pgconn, self._poll) as pipeline:
            for command in held:
                self._pgconn.send_query_params(command, None)
            if name is None:
                self._pgconn.send_prepare(new := self._new_name(), query.encode(), types)
            self._pgconn.send_query_prepared(new if name is None else name, params, formats)
            results = pipeline.results()
        if name is None and new and results[-2].status == ExecStatus.COMMAND_OK:
            self._prepared[query, types] = new
        for result in results:
            _good(result)
        return results[-1]

    def rows(self, result: PGresult) -> list[Row]:
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def _new_name(self) -> bytes:
        """A name never used before; none once there are too many, for a statement that is prepared each time."""
        self._names += 1
        return b"shopfloor%d" % self._names if len(self._prepared) < MOST_PREPARED else b""


class _Pipeline:
    """libpq's pipeline mode, always left again."""

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
            self._pgconn.finish()  # something is still under way: this connection is of no more use

    def results(self) -> list[PGresult]:
        """One result for each command that was sent."""
        self._pgconn.pipeline_sync()
        while self._pgconn.flush():
            self._wait(select.POLLIN | select.POLLOUT)
        found: list[PGresult] = []
        while True:
            while self._pgconn.is_busy():
                self._wait(select.POLLIN)
            result = self._pgconn.get_result()
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


def _good(result: PGresult) -> PGresult:
    if result.status in _DONE:
        return result
    raise psycopg.errors.error_from_result(result)
