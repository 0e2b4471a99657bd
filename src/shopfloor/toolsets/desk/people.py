"""Tools for agents, users and their keys. What hands out or takes away is for the operator alone."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shopfloor.domain.actors import HELPER, READER, Agent, Person, Token
from shopfloor.domain.pages import listed, read_cursor, wanted
from shopfloor.domain.times import DAY, HOUR, iso, iso_or_none
from shopfloor.errors import InvalidInput
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.manners import toolset
from shopfloor.usecases import agents, identity, people

LIFETIME = 30 * DAY

Right = Annotated[
    Literal["none", "reader", "helper"], Field(description="reader looks, helper also answers and moves, none neither")
]
Hours = Annotated[
    int | None,
    Field(description="How long it lives, 1-87600; default: agents: for good, users 30 days", ge=1, le=87_600),
]

_RIGHTS = {"none": None, "reader": READER, "helper": HELPER}

Name = Annotated[str, Field(description="A name, 1-255 characters (agents: 64)", min_length=1, max_length=255)]
TokenId = Annotated[str, Field(description="The key's id, as people_tokens gives it", min_length=1, max_length=255)]
AgentType = Annotated[str, Field(description="WORKER (default), ORCHESTRATOR or SUPERVISOR", max_length=40)]
Supervisor = Annotated[str | None, Field(description="The agent that it reports to; default none", max_length=64)]
ForAgent = Annotated[str | None, Field(description="The agent, or else a user", max_length=64)]
ForUser = Annotated[str | None, Field(description="The user, or else an agent", max_length=255)]


@toolset.tool("people_agents", read_only=True)
def list_agents(work: Work, limit: Limit = None, cursor: Cursor = None) -> Json:
    """All agents, retired ones too, by name."""
    rows = work.agents.page(wanted(limit), read_cursor("agents", cursor) or "")
    return listed("agents", rows, limit, _agent, lambda agent: agent.name)


@toolset.tool("people_users", read_only=True)
def list_users(work: Work, limit: Limit = None, cursor: Cursor = None) -> Json:
    """All users, by name, and what they may do at the desk."""
    rows = work.people.page(wanted(limit), read_cursor("users", cursor) or "")
    return listed("users", rows, limit, _person, lambda person: person.name)


@toolset.tool("people_tokens", read_only=True)
def list_tokens(work: Work, limit: Limit = None, cursor: Cursor = None) -> Json:
    """All tokens of agents and users, without their secrets, by id."""
    rows = work.tokens.page(wanted(limit), read_cursor("tokens", cursor) or "")
    return listed("tokens", rows, limit, lambda token: _token(token, work.now), lambda token: token.id)


@toolset.tool("key_hire", secret=True)
def hire(work: Work, name: Name, type: AgentType = "WORKER", supervisor: Supervisor = None) -> Json:
    """Add an agent; its token is in this answer, and nowhere else."""
    agent = agents.hire(work, name, type, agents.types(work), supervisor or None)
    _, text = identity.issue_for_agent(work, agent.name)
    return {"agent": _agent(agent), "token": text}


@toolset.tool("key_retire", destructive=True)
def retire(work: Work, name: Name) -> Json:
    """Let an agent go: its tokens are revoked at once, its log stays."""
    return {"agent": _agent(agents.retire(work, name))}


@toolset.tool("key_add_user", secret=True)
def add_user(work: Work, name: Name, desk: Right = "none") -> Json:
    """Add a user; the token is in this answer, and nowhere else."""
    people.add(work, name)
    person = people.seat(work, name, _RIGHTS[desk])
    _, text = identity.issue_to_user(work, name, work.now + LIFETIME)
    return {"user": _person(person), "token": text}


@toolset.tool("key_seat", idempotent=True)
def seat(work: Work, name: Name, desk: Right) -> Json:
    """Give a user a place at the desk (reader looks, helper also answers and moves), or take it away."""
    return {"user": _person(people.seat(work, name, _RIGHTS[desk]))}


@toolset.tool("key_issue", secret=True)
def issue(work: Work, agent: ForAgent = None, user: ForUser = None, hours: Hours = None) -> Json:
    """Issue a token for an agent or a user; it is in this answer, and nowhere else."""
    if bool(agent) == bool(user):
        raise InvalidInput("Name either an agent or a user", field="agent")
    if agent:
        expires_at = None if hours is None else work.now + hours * HOUR
        token, text = identity.issue_for_agent(work, agent, expires_at)
    else:
        lifetime = LIFETIME if hours is None else hours * HOUR
        token, text = identity.issue_to_user(work, user or "", work.now + lifetime)
    return {"issued": _token(token, work.now), "token": text}


@toolset.tool("key_revoke", destructive=True, idempotent=True)
def revoke(work: Work, id: TokenId) -> Json:
    """Revoke a token; it opens nothing from now on."""
    return {"revoked": _token(identity.revoke(work, id), work.now)}


def _agent(agent: Agent) -> Json:
    return {
        "id": agent.name,
        "type": agent.type,
        "supervisor": agent.supervisor,
        "lastActiveAt": iso(agent.last_active_at),
        "createdAt": iso(agent.created_at),
        "retiredAt": iso_or_none(agent.retired_at),
    }


def _person(person: Person) -> Json:
    return {
        "id": person.name,
        "desk": (person.desk or "none").lower(),
        "createdAt": iso(person.created_at),
        "removedAt": iso_or_none(person.removed_at),
    }


def _token(token: Token, now: int) -> Json:
    return {
        "id": token.id,
        "kind": token.kind.value,
        "owner": token.owner,
        "state": "valid" if token.valid(now) else "revoked" if token.revoked_at else "expired",
        "createdAt": iso(token.created_at),
        "expiresAt": iso_or_none(token.expires_at),
        "revokedAt": iso_or_none(token.revoked_at),
    }
