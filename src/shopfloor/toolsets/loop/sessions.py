"""Tools that end an iteration, or the whole session."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.runs import run_topic
from shopfloor.domain.times import SECOND
from shopfloor.errors import InvalidState
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Waiting
from shopfloor.toolsets.loop.contract import toolset
from shopfloor.usecases import iterations, runs

# How long session-complete waits for the runner's verdict. Clients time out after 30 to 60 s.
MAX_WAIT = 20 * SECOND

_RECHECK_INTERVAL = SECOND


@toolset.tool("iteration-summary")
def iteration_summary(
    uow: UnitOfWork,
    summary: Annotated[
        str,
        Field(description="What was done, what was learned, what comes next (1-20000 characters)", max_length=20_000),
    ],
) -> str:
    """Record the summary of this iteration, once, as the last thing you do in it."""
    number = iterations.record_summary(uow, uow.actor.name, summary)
    return f"Recorded the summary of iteration {number}. End your turn now."


@toolset.tool("session-complete")
def session_complete(uow: UnitOfWork, resumed: Waiting | None = None) -> str | Waiting:
    """Report that all is done, when no task is remaining or in progress. It counts once the acceptance commands pass."""
    if resumed is None:
        run = runs.request_completion(uow, uow.actor.name)
        if not runs.is_driven(uow, run):
            return (
                "Recorded that the session is complete. No process drives this run at the moment; its acceptance commands "
                "are run when it is resumed, and it is done when they pass."
            )
        wish, deadline = run.wish, uow.now + MAX_WAIT
    else:
        run = uow.runs.get(uow.actor.name)
        wish, deadline = resumed.state
    if run.judged >= wish:
        if run.verdict is not None:
            raise InvalidState(
                f"the session is not complete: {run.verdict}",
                hint="Add a task for what is missing with task-add, then end this iteration with its summary",
            )
        return "The session is complete: every check passed. End your turn now."
    if uow.now >= deadline or (resumed is not None and resumed.until == 0):
        return (
            "Recorded that the session is complete. The acceptance commands are still running: end your turn. The run "
            "is done when they pass; otherwise the next prompt says what failed."
        )
    # Notifications between processes are only hints, so the rows are read again every second.
    return Waiting(run_topic(run.name), min(deadline, uow.now + _RECHECK_INTERVAL), [wish, deadline])
