"""JSON as it comes in over HTTP."""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import from_json
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from shopfloor.errors import InvalidInput

DEPTH_LIMIT = 64
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")


async def read_body(receive: Receive) -> bytes:
    """The whole body; the gate has seen to its size."""
    chunks = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def parse(body: bytes) -> Any:
    """The JSON in the body, if it is JSON and nests no deeper than it may."""
    if too_deep(body):
        raise InvalidInput(f"JSON must not nest deeper than {DEPTH_LIMIT} levels")
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidInput(f"The body is not valid JSON: {error}") from None


def too_deep(body: bytes) -> bool:
    """Whether the JSON nests deeper than the limit, told without building it."""
    if body.count(b"[") + body.count(b"{") <= DEPTH_LIMIT:
        return False
    depth = 0
    for bracket in _BRACKET.finditer(_TEXT.sub(b"", body)):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > DEPTH_LIMIT:
            return True
    return False
