"""Recovery: return the tasks of silent and crashing agents to the queue. Deterministic code, no model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from shopfloor.domain.events import AgentChanged
from shopfloor.domain.mail import HUMAN, agent_participant
from shopfloor.domain.principals import Agent
from shopfloor.domain.tasks import State, Task
from shopfloor.domain.times import SECOND
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import claims, mail, processes

_BATCH_SIZE = 100


def return_tasks_of_silent_agents(uow: UnitOfWork) -> int:
    """Return tasks of silent agents to the queue, or fail them, and return their number.

    Time during which no server was up, or its machine was suspended, does not count: an agent that could not call is
    not silent.
    """
    up_since = processes.find_up_since(uow)
    if up_since is None or up_since > uow.now - uow.limits.silence:
        return 0
    silent = uow.tasks.list_held_by_silent(uow.now - uow.limits.silence, _BATCH_SIZE)
    seconds = uow.limits.silence // SECOND
    for name, held in groupby(silent, lambda task: task.assignee):
        assert name is not None
        reason = f"{name} was silent for more than {seconds} s"
        returned = [claims.return_task(uow, task, reason) for task in held]
        uow.emit(AgentChanged(agent=name, change="silent"))
        _mail_supervisor(uow, name, f"{name} has gone silent", reason, returned)
    return len(silent)


def record_crash(uow: UnitOfWork, name: str) -> Agent:
    """Record a crash. Too many within a minute, or one during probation, mark the agent as failed."""
    agent = uow.agents.get(name)
    crashes = uow.agents.record_crash(name, uow.now, uow.now - uow.limits.crash_window)
    on_probation = agent.failed_at is not None and not agent.has_failed(uow.now)
    if not on_probation and (crashes < uow.limits.crashes or agent.failed_at is not None):
        return uow.agents.get(name)
    failures = agent.failures + 1
    pause = min(uow.limits.retry_pause * 2 ** (failures - 1), uow.limits.longest_pause)
    uow.agents.mark_failed(name, uow.now + pause, failures, uow.now)
    reason = f"{name} crashed {crashes} times within {uow.limits.crash_window // SECOND} s"
    returned = [claims.return_task(uow, task, reason) for task in uow.tasks.list_held_by(name, _BATCH_SIZE)]
    uow.emit(AgentChanged(agent=name, change="failed"))
    # One mail per series of failures: the pause doubles each time, and a person has been informed.
    if failures == 1:
        retry = f"{reason}. It gets no task for {pause // SECOND} s"
        _mail_supervisor(uow, name, f"{name} has failed", retry, returned)
    return uow.agents.get(name)


def release_recovered_agents(uow: UnitOfWork) -> int:
    """Clear the failure of agents that passed their probation, and return their number."""
    agents = uow.agents.list_probation_ended(uow.now - uow.limits.crash_window, _BATCH_SIZE)
    for agent in agents:
        uow.agents.mark_recovered(agent.name, uow.now)
        uow.emit(AgentChanged(agent=agent.name, change="recovered"))
    return len(agents)


def _mail_supervisor(uow: UnitOfWork, name: str, subject: str, reason: str, returned: Sequence[Task]) -> None:
    """Mail the supervisor and the operator, once each."""
    lines = [f"{reason}."]
    for task in returned:
        outcome = f"failed after {task.attempts} attempts" if task.state is State.FAILED else "is pending again"
        lines.append(f"task-{task.number} {outcome}: {task.title}")
    # A supervisor may be the operator.
    parties = dict.fromkeys([mail.find_supervisor(uow, name), HUMAN])
    mail.send_system_mail(uow, list(parties), subject, "\n".join(lines), about=agent_participant(name), important=True)
