"""Verification: the work is done when the acceptance commands passed, not when the agent says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from shopfloor.runner import processes
from shopfloor.runner.processes import Outcome

SHOWN = 4_000
"""Characters of a failing command's output that the agent gets to see."""


async def failing(
    commands: Sequence[Sequence[str]],
    folder: Path,
    seconds: float,
    told: Callable[[Outcome], Awaitable[None] | None] = lambda _: None,
) -> Outcome | None:
    """The first command that does not pass; none when all do."""
    for command in dict.fromkeys(tuple(command) for command in commands):
        outcome = await processes.run(command, folder, seconds=seconds)
        told(outcome)
        if not outcome.passed:
            return outcome
    return None


def explained(outcome: Outcome) -> str:
    """A failure with the end of its output."""
    return f"{outcome.failure}. The end of its output:\n{outcome.said[-SHOWN:] or '(nothing)'}"
