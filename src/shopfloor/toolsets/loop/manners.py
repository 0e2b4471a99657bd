"""The loop's manners: plain text a model can read; a refusal is text too, with the next step in a second line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shopfloor.domain.actors import Kind
from shopfloor.errors import InvalidInput, ShopfloorError
from shopfloor.toolkit import Call, Toolset

LIST_AIM = 10_000
"""Characters that a list aims to stay below; the rest waits behind a cursor."""

LINE_LIMIT = 400

INSTRUCTIONS = (
    "You work in a loop with a fresh context each time; whatever the next iteration should know goes through these "
    "tools. Begin with task-list and note-list, take one task with task-next, and end with iteration-summary."
)


def answer(value: Any, _: Call) -> str:
    return str(value)


def refuse(error: ShopfloorError, call: Call) -> str:
    return f"error: {error.message}\n{error.hint or _next_step(error, call)}"


def _next_step(error: ShopfloorError, call: Call) -> str:
    if isinstance(error, InvalidInput) and call.tool is not None:
        names = ", ".join(
            name if name not in call.tool.form.optional else f"{name} (optional)"
            for name in call.tool.form.parameters.values()
        )
        return f"Call {call.name} again with: {names}" if names else f"Call {call.name} again without arguments"
    return "Do something else first, then try again"


def clipped(text: str) -> str:
    """A text in one line of a list."""
    line = " ".join(text.split())
    return line if len(line) <= LINE_LIMIT else f"{line[: LINE_LIMIT - 1]}…"


def fitting(lines: Iterable[tuple[str, str]], limit: int) -> tuple[list[str], str | None]:
    """The first lines of a list that fit, and the cursor of the last one when there are more. A line comes with its
    cursor."""
    kept: list[str] = []
    size, last = 0, None
    for line, cursor in lines:
        if kept and (len(kept) >= limit or size + len(line) > LIST_AIM):
            return kept, last
        kept.append(line)
        size, last = size + len(line) + 1, cursor
    return kept, None


toolset = Toolset(
    "loop",
    answer=answer,
    refuse=refuse,
    acts_as=Kind.RUN,
    may=lambda caller, _: caller.kind in (Kind.RUN, Kind.OPERATOR),
    instructions=INSTRUCTIONS,
)
