"""Pagination: a limit, and an opaque cursor for the next page."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic_core import to_json

from shopfloor.errors import InvalidInput

DEFAULT_PAGE_ROWS = 50
MAX_PAGE_ROWS = 200
DEFAULT_PAGE_BYTES = 16_000
# Maximum size of a page: by default, and if the caller gave a number of rows.
MAX_PAGE_BYTES = 80_000

T = TypeVar("T")


def fetch_size(limit: int | None) -> int:
    """Return how many rows to fetch: one more than the page holds, to know whether there are more."""
    return (limit or DEFAULT_PAGE_ROWS) + 1


def to_page(
    name: str,
    rows: Sequence[T],
    limit: int | None,
    format_item: Callable[[T], dict[str, Any]],
    key: Callable[[T], int | str],
) -> dict[str, Any]:
    """Return `{count, <name>, nextCursor?}` of the rows that fit."""
    shown = rows[: limit or DEFAULT_PAGE_ROWS]
    left = DEFAULT_PAGE_BYTES if limit is None else MAX_PAGE_BYTES
    items: list[dict[str, Any]] = []
    for row in shown:
        item = format_item(row)
        left -= len(to_json(item))
        # The first row is on the page however large it is, or the cursor would never advance.
        if items and left < 0:
            break
        items.append(item)
    answer: dict[str, Any] = {"count": len(items), name: items}
    if len(items) < len(rows):
        answer["nextCursor"] = format_cursor(name, key(rows[len(items) - 1]))
    if len(items) < len(shown):
        answer["truncated"] = True
    return answer


def format_cursor(list: str, key: int | str) -> str:
    """Return the cursor of the next page of a list."""
    # The list is part of the cursor: a cursor of another list would otherwise be read as a key of this one.
    return base64.urlsafe_b64encode(f"{list}:{key}".encode()).decode().rstrip("=")


def parse_cursor(list: str, cursor: str | None) -> str | None:
    """Parse a cursor of that list into its key, or raise InvalidInput."""
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        text = ""
    name, colon, key = text.partition(":")
    # Otherwise a NUL in a cursor would be reported as an error of another argument.
    if not colon or not text.isprintable():
        raise InvalidInput("Invalid cursor; pass nextCursor unchanged", field="cursor")
    if name != list:
        raise InvalidInput("The cursor belongs to another list; omit it to start this list", field="cursor")
    return key


def parse_number_cursor(list: str, cursor: str | None) -> int | None:
    """Parse a cursor of that list into its number, or raise InvalidInput."""
    key = parse_cursor(list, cursor)
    if key is None:
        return None
    # 18 digits fit into the 64 bits of a column. isdigit alone accepts digits of other scripts.
    if not (key.isascii() and key.isdigit() and len(key) < 19):
        raise InvalidInput("Invalid cursor; pass nextCursor unchanged", field="cursor")
    return int(key)
