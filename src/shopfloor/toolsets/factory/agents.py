"""Tools by which an agent looks at itself."""

from __future__ import annotations

from shopfloor.domain.actors import WORKER
from shopfloor.errors import WrongState
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Json
from shopfloor.toolsets.factory.answers import agent_answer, epic_answer, task_answer
from shopfloor.toolsets.factory.manners import toolset
from shopfloor.usecases import agents, claims, epics


@toolset.tool("mcp__agent__get_status", read_only=True)
def get_status(work: Work) -> Json:
    """Get your own status: type, state, current epic and task."""
    return agent_answer(agents.status(work), work.now)


@toolset.tool("mcp__agent__get_task", read_only=True)
def get_task(work: Work) -> Json:
    """Get your current task (workers only)."""
    if work.actor.role != WORKER:
        raise WrongState("Agent is not a WORKER", hint="Look at any task: mcp__task__get")
    task = claims.current_task(work)
    work.task = task.number
    return task_answer(task)


@toolset.tool("mcp__agent__get_epic", read_only=True)
def get_epic(work: Work) -> Json:
    """Get your current epic."""
    return epic_answer(epics.current(work))
