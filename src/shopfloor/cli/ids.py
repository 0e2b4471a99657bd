"""Ids as people type them: task-3, or just 3."""

from __future__ import annotations

from typing import Annotated

import typer

from shopfloor.errors import InvalidInput

TaskId = Annotated[str, typer.Argument(metavar="TASK", help="Id of a task, such as task-3, or its number.")]
EpicId = Annotated[str, typer.Argument(metavar="EPIC", help="Id of an epic, such as epic-1, or its number.")]

# 18 digits fit into a 64-bit column.
_MAX_DIGITS = 18


def parse_id(kind: str, text: str) -> int:
    """Return the number of an id such as task-3, or of a bare number."""
    digits = text.strip().lower().removeprefix(f"{kind}-").removeprefix("#")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS and int(digits)):
        raise InvalidInput(f"Expected an id such as {kind}-3, not '{text}'", hint=f"List them: shopfloor {kind} list")
    return int(digits)
