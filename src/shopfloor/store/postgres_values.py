"""Bind and load PostgreSQL's values the way SQLite does, so that the same SQL works on both."""

from __future__ import annotations

import psycopg
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.rows import TupleRow
from psycopg.types.numeric import Int8Dumper

_BIGINT = psycopg.postgres.types["int8"].oid


# SQLite has no booleans: a column is 0 or 1 there, and BIGINT here.
class _BoolDumper(Dumper):
    oid = _BIGINT

    def dump(self, obj: bool) -> Buffer:
        return b"1" if obj else b"0"


class _BoolLoader(Loader):
    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


class _NumericLoader(Loader):
    """Loads the results of SUM and AVG."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data)
        return int(text) if text.lstrip(b"-").isdigit() else float(text)


def adapt(raw: psycopg.Connection[TupleRow]) -> None:
    """Bind every int as BIGINT regardless of its size: one statement then has one plan, and none overflows."""
    raw.adapters.register_dumper(int, Int8Dumper)
    raw.adapters.register_dumper(bool, _BoolDumper)
    raw.adapters.register_loader("bool", _BoolLoader)
    raw.adapters.register_loader("numeric", _NumericLoader)
