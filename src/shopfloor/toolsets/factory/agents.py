"""Tools by which an agent looks at itself."""

from __future__ import annotations

from shopfloor.domain.times import iso
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Json
from shopfloor.toolsets.factory.manners import toolset
from shopfloor.usecases import agents


@toolset.tool("mcp__agent__get_status", read_only=True)
def get_status(work: Work) -> Json:
    """Get your own status: type, state, current epic and task."""
    agent = agents.status(work)
    return {
        "id": agent.name,
        "type": agent.type,
        "state": agent.state,
        "currentEpicId": None if agent.current_epic is None else f"epic-{agent.current_epic}",
        "currentTaskId": None if agent.current_task is None else f"task-{agent.current_task}",
        "tmuxSessionName": agent.tmux_session_name,
        "lastActiveAt": iso(agent.last_active_at),
        "createdAt": iso(agent.created_at),
        "updatedAt": iso(agent.updated_at),
    }
