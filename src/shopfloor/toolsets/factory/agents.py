"""Tools by which an agent looks at itself."""

from __future__ import annotations

from shopfloor.domain.actors import WORKER, Agent
from shopfloor.domain.ids import spelled
from shopfloor.domain.times import iso
from shopfloor.errors import WrongState
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Json
from shopfloor.toolsets.factory.epics import in_full as epic_in_full
from shopfloor.toolsets.factory.manners import toolset
from shopfloor.toolsets.factory.tasks import in_contract
from shopfloor.usecases import agents, claims, epics


@toolset.tool("mcp__agent__get_status", read_only=True)
def get_status(work: Work) -> Json:
    """Get your own status: type, state, current epic and task."""
    return in_full(agents.status(work), work.now)


@toolset.tool("mcp__agent__get_task", read_only=True)
def get_task(work: Work) -> Json:
    """Get your current task (workers only)."""
    if work.actor.role != WORKER:
        raise WrongState("Agent is not a WORKER", hint="Look at any task: mcp__task__get")
    task = claims.current_task(work)
    work.task = task.number
    return in_contract(task)


@toolset.tool("mcp__agent__get_epic", read_only=True)
def get_epic(work: Work) -> Json:
    """Get your current epic."""
    return epic_in_full(epics.current(work))


def in_full(agent: Agent, now: int) -> Json:
    """An agent's status."""
    return {
        "id": agent.name,
        "type": agent.type,
        "state": agent.state(now),
        "currentEpicId": spelled("epic", agent.current_epic),
        "currentTaskId": spelled("task", agent.current_task),
        "tmuxSessionName": agent.tmux_session_name,
        "lastActiveAt": iso(agent.last_active_at),
        "createdAt": iso(agent.created_at),
        "updatedAt": iso(agent.updated_at),
    }
