"""PostgreSQL's values, bound and given back the way SQLite does it, so that the same SQL serves both."""

from __future__ import annotations

import psycopg
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.rows import TupleRow
from psycopg.types.numeric import Int8Dumper

_BIGINT = psycopg.postgres.types["int8"].oid


class _BoolDumper(Dumper):
    oid = _BIGINT

    def dump(self, obj: bool) -> Buffer:
        return b"1" if obj else b"0"


class _BoolLoader(Loader):
    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


class _NumericLoader(Loader):
    """What SUM and AVG return."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data)
        return int(text) if text.lstrip(b"-").isdigit() else float(text)


def adapt(raw: psycopg.Connection[TupleRow]) -> None:
    """Let every whole number be a BIGINT, whatever its size: one statement then has one plan, and none overflows."""
    raw.adapters.register_dumper(int, Int8Dumper)
    raw.adapters.register_dumper(bool, _BoolDumper)
    raw.adapters.register_loader("bool", _BoolLoader)
    raw.adapters.register_loader("numeric", _NumericLoader)
