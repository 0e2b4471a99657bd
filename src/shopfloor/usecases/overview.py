"""The overview: who works on what, what is stuck, what needs an answer, and what changed last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from shopfloor.domain.crews import Crew
from shopfloor.domain.decisions import Entry, LogFilter
from shopfloor.domain.events import StoredEvent
from shopfloor.domain.mail import HUMAN, agent_participant
from shopfloor.domain.principals import LOCAL, SUPERVISOR, Agent, agent_key
from shopfloor.domain.runs import Run, RunState
from shopfloor.domain.tasks import State, Task
from shopfloor.domain.times import HOUR, MINUTE
from shopfloor.repositories.escalations import Escalation
from shopfloor.repositories.processes import Process
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import activity, claims, processes

MAX_AGENTS = 200
MAX_COUNT = 500
MAX_EVENTS = 15
MAX_DECISIONS = 200
# Agents whose last statement is looked up; the page shows fewer.
MAX_STATEMENTS = 30
MAX_RUNS = 20
MAX_CREWS = 5
MAX_REVIEWS = 5
MAX_ESCALATIONS = 5
MAX_RECENT_CALLS = 10_000
RECENT_PERIOD = 5 * MINUTE

STATES = ("failed", "silent", "waiting", "working", "idle")
"""The states that the overview shows for an agent, problems first."""


_STATES = {"FAILED": "failed", "WAITING": "waiting", "BUSY": "working", "IDLE": "idle"}


@dataclass(frozen=True, slots=True)
class LastStatement:
    """The last thing that an agent said: the title of a decision, or the subject of a mail."""

    text: str
    at: int


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """An agent with its current task, lease and last call."""

    agent: Agent
    state: str
    task: Task | None
    lease_until: int | None
    last: Entry | None
    now: int


@dataclass(frozen=True, slots=True)
class Overview:
    """What a person in charge sees first."""

    agent_statuses: list[AgentStatus]
    more_agents: bool
    counts: dict[str, int]
    runs: list[Run]
    crews: list[Crew]
    waiting: int
    reviews: list[Task]
    dead_letters: int
    escalations: list[Escalation]
    recent_calls: int
    per_minute: list[tuple[int, int, int]]
    events: list[StoredEvent]
    sentences: list[activity.Sentence]
    said: dict[str, LastStatement]
    processes: list[Process]


def get_overview(uow: UnitOfWork) -> Overview:
    """Return the state of the workspace now."""
    agents = uow.agents.list_page(MAX_AGENTS + 1, active=True)
    agent_statuses = list_agent_statuses(uow, agents[:MAX_AGENTS])
    # The built-in agent exists on every server. It is shown only where it has worked.
    agent_statuses = [status for status in agent_statuses if status.agent.name != LOCAL or status.last is not None]
    agent_statuses.sort(key=lambda status: (STATES.index(status.state), -status.agent.last_active_at))
    counts = Counter(status.state for status in agent_statuses)
    _, dead = uow.outbox.count_backlog()
    # A crew has a run for each task and each review, but is shown as one item.
    runs = [
        run
        for run in uow.runs.list_without_crews(MAX_RUNS)
        if run.state is RunState.ACTIVE or uow.now - (run.ended_at or run.updated_at) < HOUR
    ]
    crews = [
        crew
        for crew in uow.crews.list_page(MAX_CREWS)
        if crew.state is RunState.ACTIVE or uow.now - (crew.ended_at or crew.updated_at) < HOUR
    ]
    return Overview(
        agent_statuses=agent_statuses,
        more_agents=len(agents) > MAX_AGENTS,
        counts={state: counts[state] for state in STATES},
        runs=runs,
        crews=crews,
        waiting=count_waiting(uow),
        reviews=_list_reviews(uow, agents, crews),
        dead_letters=dead,
        escalations=[each for each in uow.escalations.list_page(MAX_ESCALATIONS) if uow.now - each.last_at < HOUR],
        recent_calls=uow.decisions.count_calls(uow.now - RECENT_PERIOD, MAX_RECENT_CALLS),
        per_minute=uow.gateways.metrics.list_minutes(),
        events=uow.outbox.list_recent(MAX_EVENTS),
        sentences=activity.list_recent(uow, MAX_EVENTS),
        said=_find_last_statements(uow, [status.agent.name for status in agent_statuses[:MAX_STATEMENTS]]),
        processes=processes.list_alive(uow),
    )


def _list_reviews(uow: UnitOfWork, agents: Sequence[Agent], crews: Sequence[Crew]) -> list[Task]:
    """Return the first tasks that wait for the person's review: those that no supervisor and no crew reviews."""
    if any(agent.type == SUPERVISOR and agent.name != LOCAL for agent in agents):
        return []
    driven = {crew.epic for crew in crews if crew.state is RunState.ACTIVE}
    handed_in = uow.tasks.list_page(limit=MAX_REVIEWS + MAX_CREWS, state=State.REVIEW)
    return [task for task in handed_in if task.epic not in driven][:MAX_REVIEWS]


def _find_last_statements(uow: UnitOfWork, names: Sequence[str]) -> dict[str, LastStatement]:
    """Return the last statement of each agent: its last mail, or its last decision among the latest of all agents."""
    sent = uow.mail.find_newest_sent([agent_participant(name) for name in names])
    said = {mail.sender.name: LastStatement(mail.subject, mail.created_at) for mail in sent.values()}
    entries, _ = uow.decisions.search(LogFilter(outcome="decision"), MAX_DECISIONS)
    for entry in reversed(entries):
        name = entry.subject.removeprefix("agent:")
        if name not in said or entry.created_at > said[name].at:
            said[name] = LastStatement(entry.decision, entry.created_at)
    return said


def list_agent_statuses(uow: UnitOfWork, agents: Sequence[Agent]) -> list[AgentStatus]:
    """Return the status of these agents."""
    numbers = [agent.current_task for agent in agents if agent.current_task is not None]
    tasks = {task.number: task for task in uow.tasks.find_many(numbers)}
    newest = uow.decisions.find_newest([agent_key(agent.name) for agent in agents])
    up_since = processes.find_up_since(uow)
    statuses = []
    for agent in agents:
        task = None if agent.current_task is None else tasks.get(agent.current_task)
        # The agent may have handed in its current task: only a task that it holds has a lease.
        held = task is not None and task.assignee == agent.name and task.state in claims.HELD_STATES
        last_sign = claims.find_last_sign(uow, agent, task, up_since) if task is not None and held else None
        # An agent is shown as silent after half the time at which it loses its task.
        silent = last_sign is not None and uow.now - last_sign > uow.limits.silence / 2
        state = agent.state(uow.now)
        label = "silent" if silent and state == "BUSY" else _STATES[state]
        lease = None if last_sign is None else last_sign + uow.limits.silence
        statuses.append(AgentStatus(agent, label, task, lease, newest.get(agent_key(agent.name)), uow.now))
    return statuses


def count_waiting(uow: UnitOfWork) -> int:
    """Count unmuted items that wait for a person: unread or unanswered mail, and questions of runs; up to 500."""
    return min(
        MAX_COUNT, uow.mail.count_waiting(HUMAN, uow.now, MAX_COUNT) + len(uow.run_requests.list_pending(MAX_COUNT))
    )
