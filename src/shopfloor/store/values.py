"""Values that both engines store and give back alike; the others are refused alike."""

from __future__ import annotations

from typing import Any

from shopfloor.errors import InvalidInput

_LOWEST = -(2**63)
_HIGHEST = 2**63 - 1


def check(params: dict[str, Any]) -> dict[str, Any]:
    """The same parameters, if every engine can store them."""
    for name, value in params.items():
        if isinstance(value, str):
            if "\0" in value:
                raise InvalidInput("Text must not contain the NUL character.", field=name)
            if not value.isascii() and not _encodable(value):
                raise InvalidInput("Text must be valid Unicode, without lone surrogates.", field=name)
        elif isinstance(value, int):
            if not _LOWEST <= value <= _HIGHEST:
                raise InvalidInput("Numbers must fit into 64 bits.", field=name)
        elif value != value:  # NaN, which SQLite would store as NULL
            raise InvalidInput("Numbers must be numbers, not NaN.", field=name)
    return params


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
