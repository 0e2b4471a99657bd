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
        answer["nextCursor"] = write_cursor(name, key(rows[len(items) - 1]))
    if len(items) < len(shown):
        answer["truncated"] = True
    return answer


def write_cursor(list: str, key: int | str) -> str:
    """Where a page of a list ended, as the caller hands it back."""
    return base64.urlsafe_b64encode(f"{list}:{key}".encode()).decode().rstrip("=")


def read_cursor(list: str, cursor: str | None) -> str | None:
    """The key behind a cursor of that list."""
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        text = ""
    name, colon, key = text.partition(":")
    if not colon or not text.isprintable():
        raise InvalidInput("The cursor is not one of ours; hand back nextCursor as it was", field="cursor")
    if name != list:
        raise InvalidInput("The cursor belongs to another list; leave it out to begin with this one", field="cursor")
    return key


def read_number_cursor(list: str, cursor: str | None) -> int | None:
    """The number behind a cursor of that list."""
    key = read_cursor(list, cursor)
    if key is None:
        return None
    if not (key.isascii() and key.isdigit() and len(key) < 19):
        raise InvalidInput("The cursor is not one of ours; hand back nextCursor as it was", field="cursor")
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
