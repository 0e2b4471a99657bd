"""Tools for agents: create, list, show and retire them, and report their crashes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.mail import HUMAN
from shopfloor.domain.pagination import fetch_size, parse_cursor, to_page
from shopfloor.domain.principals import Agent
from shopfloor.domain.times import format_iso, format_iso_or_none
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.boards import format_task
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.toolsets.desk.log import format_entries
from shopfloor.toolsets.desk.overview import format_agent_status
from shopfloor.toolsets.desk.tokens import format_token
from shopfloor.toolsets.desk.work import format_usage
from shopfloor.usecases import agents, credentials

MAX_EXCERPT_CHARACTERS = 300

Name = Annotated[str, Field(description="Name of the agent, 1-64 characters")]
AgentType = Annotated[str, Field(description="WORKER (default), ORCHESTRATOR, SUPERVISOR or your own", max_length=40)]
Supervisor = Annotated[str | None, Field(description="Agent that is notified of its failures", max_length=64)]
Active = Annotated[bool, Field(description="Leave out retired agents; default false")]
IssueToken = Annotated[bool, Field(description="Also issue a token; default true")]


@toolset.tool("agent_create", secret=True, admin=True)
def create_agent(
    uow: UnitOfWork,
    name: Name,
    type: AgentType = "WORKER",
    supervisor: Supervisor = None,
    issue_token: IssueToken = True,
) -> Json:
    """Create an agent. The response is the only place that shows its token."""
    agent = agents.create_agent(uow, name, type, agents.list_types(uow), supervisor or None)
    token = credentials.issue_for_agent(uow, agent.name)[1] if issue_token else None
    return {"agent": format_agent(agent, uow.now), "token": token}


@toolset.tool("agent_list", read_only=True)
def list_agents(uow: UnitOfWork, active: Active = False, limit: Limit = None, cursor: Cursor = None) -> Json:
    """List all agents by name, including retired ones."""
    rows = uow.agents.list_page(fetch_size(limit), parse_cursor("agents", cursor) or "", active=active)
    return to_page("agents", rows, limit, lambda agent: format_agent(agent, uow.now), lambda agent: agent.name)


@toolset.tool("agent_show", read_only=True)
def show_agent(uow: UnitOfWork, name: Name) -> Json:
    """Show one agent, even a retired one: its work, lease, calls, mail, tokens, and what it used."""
    found = agents.get_details(uow, name)
    return {
        "agent": format_agent(found.status.agent, uow.now),
        "status": {
            **format_agent_status(found.status),
            "epicTitle": None if found.epic is None else found.epic.title,
        },
        "tasks": [format_task(task) for task in found.tasks],
        "calls": format_entries(uow, found.calls),
        "sent": [
            {"id": f"mail-{mail.id}", "subject": mail.subject, "body": mail.body[:MAX_EXCERPT_CHARACTERS],
             "to": [recipient.name for recipient in recipients], "isForHuman": HUMAN in recipients,
             "at": format_iso(mail.created_at)}
            for mail, recipients in found.sent
        ],
        "unread": found.unread,
        "tokens": [format_token(token, uow.now) for token in found.tokens],
        "usage": [{"day": format_iso(day.day)[:10], **format_usage(day)} for day in found.usage],
    }  # fmt: skip


@toolset.tool("agent_retire", destructive=True, idempotent=True, admin=True)
def retire_agent(uow: UnitOfWork, name: Name) -> Json:
    """Retire an agent permanently. Its tokens are revoked at once; its log is kept."""
    return {"agent": format_agent(agents.retire_agent(uow, name), uow.now)}


@toolset.tool("agent_report_crash", admin=True)
def report_crash(uow: UnitOfWork, name: Name) -> Json:
    """Report that an agent's process ended unexpectedly. Three crashes within a minute mark the agent as FAILED."""
    return {"agent": format_agent(agents.report_crash(uow, name), uow.now)}


def format_agent(agent: Agent, now: int) -> Json:
    """Return an agent as the desk shows it."""
    return {
        "id": agent.name,
        "type": agent.type,
        "state": "RETIRED" if agent.retired_at else agent.state(now),
        "supervisor": agent.supervisor,
        "lastActiveAt": format_iso(agent.last_active_at),
        "createdAt": format_iso(agent.created_at),
        "retiredAt": format_iso_or_none(agent.retired_at),
    }
