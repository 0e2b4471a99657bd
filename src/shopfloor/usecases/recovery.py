"""Recovery: what silent and crashing agents leave behind finds its way back. No model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from shopfloor.domain.actors import Agent
from shopfloor.domain.events import AgentChanged
from shopfloor.domain.mail import HUMAN, agent_party
from shopfloor.domain.tasks import State, Task
from shopfloor.domain.times import SECOND, iso
from shopfloor.repositories.work import Work
from shopfloor.usecases import claims, mail

_BATCH = 100


def return_tasks_of_silent(work: Work) -> int:
    """How many tasks of agents that have gone silent went back to the queue, or failed."""
    silent = work.tasks.left_by_silent(work.now - work.rules.silence, _BATCH)
    seconds = work.rules.silence // SECOND
    for name, held in groupby(silent, lambda task: task.assignee):
        assert name is not None
        reason = f"{name} was silent for more than {seconds} s"
        returned = [claims.give_back(work, task, reason) for task in held]
        work.tell(AgentChanged(agent=name, change="silent"))
        _tell(work, name, f"{name} has gone silent", reason, returned)
    return len(silent)


def crashed(work: Work, name: str) -> Agent:
    """The agent after one more crash; too many within a minute, or one on probation, mark it as failed."""
    agent = work.agents.get(name)
    crashes = work.agents.add_crash(name, work.now, work.now - work.rules.crash_window)
    on_probation = agent.failed_at is not None and not agent.failed(work.now)
    if on_probation or (crashes >= work.rules.crashes and agent.failed_at is None):
        _fail(work, agent, crashes)
    return work.agents.get(name)


def release_recovered(work: Work) -> int:
    """How many failed agents have lived through their probation."""
    agents = work.agents.on_probation(work.now - work.rules.crash_window, _BATCH)
    for agent in agents:
        work.agents.recover(agent.name, work.now)
        work.tell(AgentChanged(agent=agent.name, change="recovered"))
    return len(agents)


def _fail(work: Work, agent: Agent, crashes: int) -> None:
    failures = agent.failures + 1
    pause = min(work.rules.retry_pause * 2 ** (failures - 1), work.rules.longest_pause)
    work.agents.fail(agent.name, work.now + pause, failures, work.now)
    reason = f"{agent.name} crashed {crashes} times within {work.rules.crash_window // SECOND} s"
    returned = [claims.give_back(work, task, reason) for task in work.tasks.held_by(agent.name, _BATCH)]
    work.tell(AgentChanged(agent=agent.name, change="failed"))
    if failures == 1:
        retry = f"{reason}. It may try again from {iso(work.now + pause)} on"
        _tell(work, agent.name, f"{agent.name} has failed", retry, returned)


def _tell(work: Work, name: str, subject: str, reason: str, returned: Sequence[Task]) -> None:
    """Tell supervisor and person, once each."""
    lines = [f"{reason}."]
    lines += [f"task-{task.number} {task.title}: {_became(task)}" for task in returned]
    parties = dict.fromkeys([mail.in_charge_of(work, name), HUMAN])
    mail.tell(work, list(parties), subject, "\n".join(lines), about=agent_party(name), important=True)


def _became(task: Task) -> str:
    if task.state is State.FAILED:
        return f"FAILED after {task.attempts} attempts"
    return "PENDING again"
