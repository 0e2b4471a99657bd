"""Agents come, work and go."""

from __future__ import annotations

from collections.abc import Sequence

from shopfloor.domain.actors import LOCAL, Agent, Kind, agent_name
from shopfloor.domain.events import AgentChanged
from shopfloor.errors import InvalidInput
from shopfloor.repositories.work import Work
from shopfloor.usecases import claims, recovery

_TASKS = 1000


def status(work: Work) -> Agent:
    """The calling agent itself."""
    return work.agents.get(work.actor.name)


def types(work: Work) -> Sequence[str]:
    """The types that an agent of this floor may have."""
    return work.rules.agent_types


def hire(
    work: Work,
    name: str,
    type: str,
    types: Sequence[str],
    supervisor: str | None = None,
    tmux_session_name: str | None = None,
) -> Agent:
    """A new agent. Its name stays taken for good: the log knows it."""
    agent_name(name)
    if type not in types:
        raise InvalidInput(f"There is no agent type '{type}'; there are {', '.join(types)}", field="type")
    if supervisor is not None:
        work.agents.active(supervisor)
    if (other := work.agents.namesake(name)) not in (None, name):
        raise InvalidInput(f"The name '{name}' differs from '{other}' only in capitals; choose another", field="name")
    if not work.agents.add(name, type, supervisor, tmux_session_name, work.now):
        raise InvalidInput(f"The name '{name}' is taken; choose another", field="name")
    work.tell(AgentChanged(agent=name, change="hired"))
    return work.agents.get(name)


def crashed(work: Work, name: str) -> Agent:
    """The agent after its process ended without a stop reason, which its runner reports here."""
    return recovery.crashed(work, name)


def retire(work: Work, name: str) -> Agent:
    """The agent, which from now on cannot act; its tokens are revoked."""
    if name == LOCAL:
        raise InvalidInput("The built-in agent 'local' cannot retire", field="name")
    for task in work.tasks.held_by(work.agents.get(name).name, _TASKS):
        claims.give_back(work, task, f"{name} has retired")
    work.agents.retire(name, work.now)
    work.tokens.revoke_all(Kind.AGENT, name, work.now)
    work.tell(AgentChanged(agent=name, change="retired"))
    return work.agents.get(name)
