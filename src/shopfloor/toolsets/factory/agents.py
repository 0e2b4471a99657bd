"""Tools that show an agent its own state."""

from __future__ import annotations

from shopfloor.domain.principals import WORKER
from shopfloor.errors import InvalidState
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json
from shopfloor.toolsets.factory.contract import toolset
from shopfloor.toolsets.factory.shapes import format_agent_status, format_contract_task, format_epic
from shopfloor.usecases import agents, claims, epics


@toolset.tool("mcp__agent__get_status", read_only=True)
def get_status(uow: UnitOfWork) -> Json:
    """Get your own status: type, state, current epic and task."""
    return format_agent_status(agents.get_own_agent(uow), uow.now)


@toolset.tool("mcp__agent__get_task", critical=True, read_only=True)
def get_task(uow: UnitOfWork) -> Json:
    """Get your current task."""
    if uow.actor.role != WORKER:
        raise InvalidState("Agent is not a WORKER", hint="Look at any task: mcp__task__get")
    task = claims.get_current_task(uow)
    uow.task = task.number
    return format_contract_task(task)


@toolset.tool("mcp__agent__get_epic", critical=True, read_only=True)
def get_epic(uow: UnitOfWork) -> Json:
    """Get your current epic."""
    return format_epic(epics.get_current_epic(uow))
