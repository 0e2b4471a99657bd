"""How the desk spells lists, times and names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from pydantic import Field
from pydantic_core import to_json

from shopfloor.domain.pages import PAGE, PAGE_LIMIT, write_cursor
from shopfloor.toolkit import Json

LARGEST_SIZE = 90_000
"""Bytes at which a list ends although more rows were wanted."""

Limit = Annotated[int | None, Field(description=f"1-{PAGE_LIMIT}, default {PAGE}", ge=1, le=PAGE_LIMIT)]
Cursor = Annotated[str | None, Field(description="nextCursor of the page before", max_length=200)]
Name = Annotated[str, Field(min_length=1, max_length=255)]

T = TypeVar("T")


def wanted(limit: int | None) -> int:
    """How many rows to fetch: one more than are shown, to see whether there is more."""
    return (limit or PAGE) + 1


def listed(
    name: str, rows: Sequence[T], limit: int | None, spell: Callable[[T], Json], key: Callable[[T], int | str]
) -> Json:
    """`{<name>, nextCursor?}` of as many rows as were wanted and fit."""
    items: list[Json] = []
    size = 0
    for row in rows[: limit or PAGE]:
        item = spell(row)
        size += len(to_json(item))
        if items and size > LARGEST_SIZE:
            break
        items.append(item)
    answer: Json = {name: items}
    if len(items) < len(rows):
        answer["nextCursor"] = write_cursor(key(rows[len(items) - 1]))
    return answer
