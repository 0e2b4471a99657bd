"""Create and retire agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shopfloor.domain.decisions import Entry, LogFilter
from shopfloor.domain.epics import Epic
from shopfloor.domain.events import AgentChanged
from shopfloor.domain.mail import Mail, Participant, agent_participant
from shopfloor.domain.principals import LOCAL, Agent, Kind, Token, agent_key, check_agent_name
from shopfloor.domain.tasks import Task
from shopfloor.domain.usage import UsageDay, UsageKind
from shopfloor.errors import InvalidInput
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import claims, overview, recovery, usage
from shopfloor.usecases.overview import AgentStatus

_MAX_TASKS = 1000
_MAX_CALLS = 30
_MAX_ROWS = 10
_MAX_RECIPIENTS = 10
_USAGE_DAYS = 30


def get_own_agent(uow: UnitOfWork) -> Agent:
    """Return the calling agent."""
    return uow.agents.get(uow.actor.name)


def list_types(uow: UnitOfWork) -> Sequence[str]:
    """Return the types that an agent of this server may have."""
    return uow.limits.agent_types


@dataclass(frozen=True, slots=True)
class AgentDetails:
    """An agent with its work, mail, calls, tokens and usage."""

    status: AgentStatus
    tasks: list[Task]
    calls: list[Entry]
    sent: list[tuple[Mail, list[Participant]]]
    unread: int
    tokens: list[Token]
    usage: list[UsageDay]
    epic: Epic | None


def get_details(uow: UnitOfWork, name: str) -> AgentDetails:
    """Return everything about one agent, even a retired one."""
    agent = uow.agents.get(name)
    participant = agent_participant(name)
    calls, _ = uow.decisions.search(LogFilter(subject=agent_key(name), desk=True), _MAX_CALLS)
    return AgentDetails(
        status=overview.list_agent_statuses(uow, [agent])[0],
        tasks=uow.tasks.list_held_by(name, _MAX_ROWS),
        calls=calls,
        sent=[
            (mail, [receipt[0] for receipt in uow.mail.list_receipts(mail.id, _MAX_RECIPIENTS)])
            for mail in uow.mail.list_sent(participant, limit=_MAX_ROWS)
        ],
        unread=uow.mail.count_unread(participant),
        tokens=uow.tokens.list_of_owner(Kind.AGENT, name, _MAX_ROWS),
        usage=usage.list_usage(uow, UsageKind.AGENT, name, _USAGE_DAYS),
        epic=None if agent.current_epic is None else uow.epics.get(agent.current_epic),
    )


def create_agent(
    uow: UnitOfWork,
    name: str,
    type: str,
    types: Sequence[str],
    supervisor: str | None = None,
    tmux_session_name: str | None = None,
) -> Agent:
    """Create an agent. Its name can never be used again, because the log refers to it."""
    check_agent_name(name)
    if type not in types:
        raise InvalidInput(f"Unknown agent type '{type}'; expected one of {', '.join(types)}", field="type")
    if supervisor is not None:
        uow.agents.get_active(supervisor)
    # Names that differ only in case would be confused in mail and in the log.
    if (other := uow.agents.find_case_variant(name)) not in (None, name):
        raise InvalidInput(
            f"Agent '{name}' differs from '{other}' only in upper and lower case; choose another name", field="name"
        )
    if not uow.agents.add(name, type, supervisor, tmux_session_name, uow.now):
        raise InvalidInput(f"Agent '{name}' already exists; choose another name", field="name")
    uow.emit(AgentChanged(agent=name, change="hired"))
    return uow.agents.get(name)


def report_crash(uow: UnitOfWork, name: str) -> Agent:
    """Record that the agent's process ended without a stop reason."""
    return recovery.record_crash(uow, name)


def retire_agent(uow: UnitOfWork, name: str) -> Agent:
    """Retire the agent: return its tasks, revoke its tokens. Its log is kept. Retiring it again changes nothing."""
    if name == LOCAL:
        raise InvalidInput("The built-in agent 'local' cannot retire", field="name")
    if (agent := uow.agents.get(name)).retired_at is not None:
        return agent
    for task in uow.tasks.list_held_by(name, _MAX_TASKS):
        claims.return_task(uow, task, f"{name} has retired")
    uow.agents.retire(name, uow.now)
    uow.tokens.revoke_all(Kind.AGENT, name, uow.now)
    uow.emit(AgentChanged(agent=name, change="retired"))
    return uow.agents.get(name)
