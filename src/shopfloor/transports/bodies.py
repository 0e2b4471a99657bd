"""Read and parse JSON bodies."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from pydantic_core import from_json
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from shopfloor.errors import InvalidInput

MAX_DEPTH = 64
MAX_VALUES = 20_000
DUPLICATE_KEY = "The body names a key of an object twice"
# Also matches an unterminated string. Otherwise each quote in it would be tried as the start of another: a body of 1
# MiB took more than an hour, on the event loop.
_TEXT = re.compile(rb'"[^"\\]*(?:\\.?[^"\\]*)*"?', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")


async def read_body(receive: Receive) -> bytes:
    """Read the whole body; the gate limits its size."""
    chunks = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def parse_json(body: bytes) -> Any:
    """Parse JSON; reject a structure that is too large and duplicate keys."""
    if (problem := find_problem(body)) is not None:
        raise InvalidInput(problem)
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidInput(f"The body is not valid JSON: {error}") from None
    if has_duplicate_keys(body, value):
        raise InvalidInput(DUPLICATE_KEY)
    return value


def parse_with_surrogates(body: bytes) -> Any:
    """Parse JSON in UTF-8 that may have unpaired surrogates in its texts, or raise ValueError."""
    return json.loads(body.decode(), parse_constant=_reject_constant)


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def find_problem(body: bytes) -> str | None:
    """Return why the structure of the JSON is too large to parse, or None."""
    if is_too_deep(body):
        return f"JSON must not nest deeper than {MAX_DEPTH} levels"
    # A list of 500,000 numbers fits into a body, and took 1.5 s of the event loop before it was rejected. Commas in
    # strings only make the count too high.
    if body.count(b",") > MAX_VALUES and _TEXT.sub(b"", body).count(b",") > MAX_VALUES:
        return f"JSON must not have more than {MAX_VALUES} values"
    return None


def has_duplicate_keys(body: bytes, value: Any) -> bool:
    """Return whether an object of the parsed body has a duplicate key: parsers differ in which value they use."""
    keys = _count_keys(value)
    # Every key is followed by a colon. Only strings with colons need the slower check.
    return body.count(b":") != keys and _TEXT.sub(b"", body).count(b":") != keys


def _count_keys(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_count_keys, value.values()))
    return sum(map(_count_keys, value)) if isinstance(value, list) else 0


def is_too_deep(body: bytes) -> bool:
    """Return whether the JSON nests deeper than the limit, without parsing it."""
    # Nearly every body passes here: counting bytes costs next to nothing, and brackets in strings only raise the count.
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in _BRACKET.finditer(_TEXT.sub(b"", body)):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False
