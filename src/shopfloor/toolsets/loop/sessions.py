"""Tools for the ends: of an iteration, and of the whole session."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.loops import Run, topic
from shopfloor.domain.times import SECOND
from shopfloor.errors import WrongState
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Waiting
from shopfloor.toolsets.loop.manners import toolset
from shopfloor.usecases import loops

PATIENCE = 20 * SECOND
"""How long session-complete waits for the runner's verdict; clients give up on a call after 30 to 60 s."""

_LOOK_AGAIN = SECOND


@toolset.tool("iteration-summary")
def iteration_summary(
    work: Work,
    summary: Annotated[
        str,
        Field(description="What was done, what was learned, what comes next (1-20000 characters)", max_length=20_000),
    ],
) -> str:
    """Sum up this iteration, once, as the last thing you do in it."""
    number = loops.summarise(work, work.actor.name, summary)
    return f"Recorded the summary of iteration {number}. End your turn now."


@toolset.tool("session-complete")
def session_complete(work: Work, waited: Waiting | None = None) -> str | Waiting:
    """Say that all is done, when no task is remaining or in progress. Acceptance commands are run before it counts."""
    if waited is None:
        run = loops.wish_completion(work, work.actor.name)
        if not loops.is_driven(work, run):
            return (
                "Recorded that the session is complete. Nobody drives this run at the moment; its acceptance commands "
                "are run when it is resumed, and it is done when they pass."
            )
        wish, deadline = run.wish, work.now + PATIENCE
    else:
        run = work.runs.get(work.actor.name)
        wish, deadline = waited.state
    if run.judged >= wish:
        return _judged(run)
    if work.now >= deadline or (waited is not None and waited.until == 0):
        return (
            "Recorded that the session is complete. The acceptance commands are still running: end your turn. The run "
            "is done when they pass; otherwise the next iteration is told what failed."
        )
    return Waiting(topic(run.name), min(deadline, work.now + _LOOK_AGAIN), [wish, deadline])


def _judged(run: Run) -> str:
    if run.verdict is not None:
        raise WrongState(
            f"the session is not complete: {run.verdict}",
            hint="Add a task for what is missing with task-add, then end this iteration with its summary",
        )
    return "The session is complete: every check passed. End your turn now."
