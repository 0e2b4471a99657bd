"""The interface between the states and the work that an agent is driven for.

A run works on a specification. A crew has further kinds: one task of an epic, a plan, a review.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from shopfloor.domain.runs import RunSnapshot
from shopfloor.runner.moves import State
from shopfloor.runner.run_store import BegunIteration

if TYPE_CHECKING:
    from shopfloor.runner.context import Ending, RunContext, Wait


class Work(Protocol):
    """The work of a driven agent. The states decide when to ask; the work decides what to do, and when it is done."""

    async def begin(self, context: RunContext) -> None:
        """Prepare the work before the first state that needs an agent."""

    def needs_verification(self, context: RunContext, snapshot: RunSnapshot) -> bool:
        """Report whether the work must be verified before another turn."""

    async def find_obstacle(self, context: RunContext, snapshot: RunSnapshot) -> Wait | Ending | None:
        """Return what keeps the agent from another turn: something to wait for, an ending, or None."""

    async def write_prompt(self, context: RunContext, begun: BegunIteration, extras: Sequence[str]) -> str:
        """Write the prompt of an iteration that has begun. `extras` are paragraphs that it must include."""

    async def list_commands(self, context: RunContext) -> list[Sequence[str]]:
        """Return the acceptance commands of the work."""

    async def verify(self, context: RunContext) -> State:
        """Check the work while no agent is working on it, and return the next state."""
