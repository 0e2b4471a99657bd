"""Tools for supervisors: the agents of the team."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.pagination import fetch_size, parse_cursor, to_page
from shopfloor.domain.principals import Agent
from shopfloor.domain.times import format_iso_or_none
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.factory.arguments import AgentId
from shopfloor.toolsets.factory.contract import toolset
from shopfloor.toolsets.factory.shapes import format_agent_status
from shopfloor.usecases import agents, credentials

Type = Annotated[str, Field(description="SUPERVISOR, ORCHESTRATOR or WORKER", min_length=1, max_length=64)]


@toolset.tool("mcp__supervisor__create_agent", secret=True)
def create_agent(
    uow: UnitOfWork,
    agent_id: AgentId,
    type: Type = "WORKER",
    supervisor_id: Annotated[str | None, Field(description="Default: you", min_length=1, max_length=64)] = None,
    tmux_session_name: Annotated[str, Field(description="Where it runs", max_length=200)] | None = None,
) -> Json:
    """Create an agent. Its token is shown only once. After the first token, every call requires one."""
    supervisor = supervisor_id or uow.actor.name
    agent = agents.create_agent(uow, agent_id, type, uow.limits.agent_types, supervisor, tmux_session_name)
    _, token = credentials.issue_for_agent(uow, agent.name)
    return {**_format_agent(agent, uow.now), "token": token}


@toolset.tool("mcp__supervisor__list_agents", read_only=True)
def list_agents(uow: UnitOfWork, type: Type | None = None, limit: Limit = None, cursor: Cursor = None) -> Json:
    """List the agents by name, with their state and current task."""
    rows = uow.agents.list_page(fetch_size(limit), parse_cursor("agents", cursor) or "", type=type, active=True)
    return to_page("agents", rows, limit, lambda agent: _format_agent(agent, uow.now), lambda agent: agent.name)


@toolset.tool("mcp__supervisor__retire_agent", destructive=True, idempotent=True)
def retire_agent(uow: UnitOfWork, agent_id: AgentId) -> Json:
    """Retire an agent: its token is revoked, its tasks return to the queue, its log stays."""
    agent = agents.retire_agent(uow, agent_id)
    return {**_format_agent(agent, uow.now), "retiredAt": format_iso_or_none(agent.retired_at)}


def _format_agent(agent: Agent, now: int) -> Json:
    return {**format_agent_status(agent, now), "supervisorId": agent.supervisor}
