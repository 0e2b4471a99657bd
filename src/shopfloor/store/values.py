"""Reject values that the two engines would store differently."""

from __future__ import annotations

from typing import Any

from shopfloor.errors import InvalidInput

_MIN_INTEGER = -(2**63)
_MAX_INTEGER = 2**63 - 1


def check_parameters(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters, or raise if an engine cannot store one of them."""
    # This runs for every statement, so ASCII text and plain integers pass without a call per value. `type`, not
    # isinstance: a subclass such as an enum takes the slow path.
    for value in params.values():
        kind = type(value)
        if kind is str:
            if "\0" in value or not value.isascii():
                break
        elif kind is int:
            if not _MIN_INTEGER <= value <= _MAX_INTEGER:
                break
        elif value is not None:
            break
    else:
        return params
    return _check_each(params)


def _check_each(params: dict[str, Any]) -> dict[str, Any]:
    for name, value in params.items():
        if isinstance(value, str):
            # PostgreSQL rejects NUL; SQLite would store it.
            if "\0" in value:
                raise InvalidInput("Text must not contain the NUL character.", field=name)
            try:
                value.encode()
            except UnicodeEncodeError:
                raise InvalidInput("Text must be valid Unicode, without lone surrogates.", field=name) from None
        elif isinstance(value, int):
            # Python's integers have no limit, the columns of both engines do.
            if not _MIN_INTEGER <= value <= _MAX_INTEGER:
                raise InvalidInput("Numbers must fit into 64 bits.", field=name)
        elif isinstance(value, float):
            # SQLite would store NULL for NaN.
            if value != value:
                raise InvalidInput("Numbers must not be NaN.", field=name)
        elif value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f":{name} is a {type(value).__name__}, which the store does not keep")
    return params
