"""Pages: so many at once, and an opaque cursor that says where the next one begins."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic_core import to_json

from shopfloor.errors import InvalidInput

PAGE = 50
PAGE_LIMIT = 200
USUAL_SIZE = 16_000
LARGEST_SIZE = 80_000
"""Bytes of a list: where it ends by itself, and where it ends although the caller wanted more."""

T = TypeVar("T")


def wanted(limit: int | None) -> int:
    """How many rows to fetch: one more than are shown, to see whether there is more."""
    return (limit or PAGE) + 1


def listed(
    name: str,
    rows: Sequence[T],
    limit: int | None,
    spell: Callable[[T], dict[str, Any]],
    key: Callable[[T], int | str],
) -> dict[str, Any]:
    """`{count, <name>, nextCursor?}` of as many rows as were wanted and fit."""
    shown = rows[: limit or PAGE]
    items = _fitting(shown, spell, USUAL_SIZE if limit is None else LARGEST_SIZE)
    answer: dict[str, Any] = {"count": len(items), name: items}
    if len(items) < len(rows):
        answer["nextCursor"] = write_cursor(key(rows[len(items) - 1]))
    if len(items) < len(shown):
        answer["truncated"] = True
    return answer


def write_cursor(key: int | str) -> str:
    """Where a page ended, as the caller hands it back."""
    return base64.urlsafe_b64encode(f"1{key}".encode()).decode().rstrip("=")


def read_cursor(cursor: str | None) -> str | None:
    """The key behind a cursor."""
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        text = ""
    if not text.startswith("1"):
        raise InvalidInput("The cursor is not one of ours; hand back nextCursor as it was", field="cursor")
    return text[1:]


def read_number_cursor(cursor: str | None) -> int | None:
    """The number behind a cursor."""
    key = read_cursor(cursor)
    if key is None:
        return None
    if not (key.isascii() and key.isdigit() and len(key) < 19):
        raise InvalidInput("The cursor belongs to another list", field="cursor")
    return int(key)


def _fitting(rows: Sequence[T], spell: Callable[[T], dict[str, Any]], room: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for row in rows:
        item = spell(row)
        room -= len(to_json(item))
        if items and room < 0:
            break
        items.append(item)
    return items
