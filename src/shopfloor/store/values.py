"""Values that both engines store and give back alike; the others are refused alike."""

from __future__ import annotations

from typing import Any

from shopfloor.errors import InvalidInput

_LOWEST = -(2**63)
_HIGHEST = 2**63 - 1


def check(params: dict[str, Any]) -> dict[str, Any]:
    """The same parameters, if every engine can store them."""
    for value in params.values():
        kind = type(value)
        if kind is str:
            if "\0" in value or not value.isascii():
                break
        elif kind is int:
            if not _LOWEST <= value <= _HIGHEST:
                break
        elif value is not None:
            break
    else:  # nearly always
        return params
    return _checked(params)


def _checked(params: dict[str, Any]) -> dict[str, Any]:
    for name, value in params.items():
        if isinstance(value, str):
            _check_text(name, value)
        elif isinstance(value, int):
            if not _LOWEST <= value <= _HIGHEST:
                raise InvalidInput("Numbers must fit into 64 bits.", field=name)
        elif isinstance(value, float):
            if value != value:  # SQLite would store NULL
                raise InvalidInput("Numbers must be numbers, not NaN.", field=name)
        elif value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f":{name} is a {type(value).__name__}, which the store does not keep")
    return params


def _check_text(name: str, text: str) -> None:
    if "\0" in text:
        raise InvalidInput("Text must not contain the NUL character.", field=name)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidInput("Text must be valid Unicode, without lone surrogates.", field=name) from None
