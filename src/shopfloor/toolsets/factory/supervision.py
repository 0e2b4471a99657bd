"""Tools by which a supervisor runs its team."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.actors import Agent
from shopfloor.domain.pages import listed, read_cursor, wanted
from shopfloor.domain.times import iso_or_none
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.factory.answers import agent_answer
from shopfloor.toolsets.factory.arguments import AgentId
from shopfloor.toolsets.factory.manners import toolset
from shopfloor.usecases import agents, identity

Type = Annotated[str, Field(description="SUPERVISOR, ORCHESTRATOR or WORKER", min_length=1, max_length=64)]


@toolset.tool("mcp__supervisor__create_agent", secret=True)
def create_agent(
    work: Work,
    agent_id: AgentId,
    type: Type = "WORKER",
    supervisor_id: Annotated[str | None, Field(description="Default: you", min_length=1, max_length=64)] = None,
    tmux_session_name: Annotated[str, Field(description="Where it runs", max_length=200)] | None = None,
) -> Json:
    """Add an agent. Its token is shown only this once; from the first token on, every call needs one."""
    supervisor = supervisor_id or work.actor.name
    agent = agents.hire(work, agent_id, type, work.rules.agent_types, supervisor, tmux_session_name)
    _, token = identity.issue_for_agent(work, agent.name)
    return {**_listed(agent, work.now), "token": token}


@toolset.tool("mcp__supervisor__list_agents", read_only=True)
def list_agents(work: Work, type: Type | None = None, limit: Limit = None, cursor: Cursor = None) -> Json:
    """List the agents by name, with what each of them does."""
    rows = work.agents.page(wanted(limit), read_cursor("agents", cursor) or "", type=type, active=True)
    return listed("agents", rows, limit, lambda agent: _listed(agent, work.now), lambda agent: agent.name)


@toolset.tool("mcp__supervisor__retire_agent", destructive=True, idempotent=True)
def retire_agent(work: Work, agent_id: AgentId) -> Json:
    """Let an agent go: its token is revoked, its tasks go back to the queue, its log stays."""
    agent = agents.retire(work, agent_id)
    return {**_listed(agent, work.now), "retiredAt": iso_or_none(agent.retired_at)}


def _listed(agent: Agent, now: int) -> Json:
    return {**agent_answer(agent, now), "supervisorId": agent.supervisor}
