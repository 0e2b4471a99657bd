"""The floor at a glance: who works on what, what is stuck, what needs an answer, what changed last."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from shopfloor.domain.actors import LOCAL, Agent, agent_key
from shopfloor.domain.decisions import Entry
from shopfloor.domain.events import Told
from shopfloor.domain.loops import Run, RunState
from shopfloor.domain.mail import HUMAN
from shopfloor.domain.times import HOUR
from shopfloor.errors import NotFound
from shopfloor.gateways.metrics import Metrics
from shopfloor.repositories.escalations import Escalation
from shopfloor.repositories.processes import Process
from shopfloor.repositories.work import Work

AGENTS = 200
COUNTED = 500
EVENTS = 15
RUNS = 20
ESCALATIONS = 5

STATES = ("failed", "silent", "waiting", "working", "idle")
"""How an agent can be, problems first."""


_STATES = {"FAILED": "failed", "WAITING": "waiting", "BUSY": "working", "IDLE": "idle"}


@dataclass(frozen=True, slots=True)
class Seat:
    """An agent, and what it is at."""

    agent: Agent
    state: str
    task_title: str | None
    lease_until: int | None
    last: Entry | None


@dataclass(frozen=True, slots=True)
class Overview:
    """What a person in charge sees first."""

    seats: list[Seat]
    more_seats: bool
    counts: dict[str, int]
    runs: list[Run]
    waiting: int
    dead_letters: int
    escalations: list[Escalation]
    per_minute: list[tuple[int, int, int]]
    events: list[Told]
    processes: list[Process]


def overview(work: Work) -> Overview:
    """The floor now."""
    agents = [agent for agent in work.agents.page(AGENTS + 1) if agent.retired_at is None]
    seats = [_seat(work, agent) for agent in agents[:AGENTS]]
    seats = [seat for seat in seats if seat.agent.name != LOCAL or seat.last is not None]
    seats.sort(key=lambda seat: (STATES.index(seat.state), -seat.agent.last_active_at))
    counts = Counter(seat.state for seat in seats)
    _, dead = work.outbox.backlog()
    return Overview(
        seats=seats,
        more_seats=len(agents) > AGENTS,
        counts={state: counts[state] for state in STATES},
        runs=_runs(work),
        waiting=waiting(work),
        dead_letters=dead,
        escalations=[each for each in work.escalations.page(ESCALATIONS) if work.now - each.last_at < HOUR],
        per_minute=work.the(Metrics).per_minute(),
        events=work.outbox.recent(EVENTS),
        processes=work.processes.all(),
    )


def _seat(work: Work, agent: Agent) -> Seat:
    title = None
    if agent.current_task is not None:
        try:
            title = work.tasks.get(agent.current_task).title
        except NotFound:
            title = None
    lease = None if agent.current_task is None else agent.seen_at(work.now) + work.rules.silence
    return Seat(agent, _state(work, agent), title, lease, work.decisions.last_of(agent_key(agent.name)))


def _state(work: Work, agent: Agent) -> str:
    """failed, waiting, silent with a task in hand, working, or idle."""
    silent = agent.current_task is not None and work.now - agent.seen_at(work.now) > work.rules.silence / 2
    state = agent.state(work.now)
    return "silent" if silent and state == "BUSY" else _STATES[state]


def waiting(work: Work) -> int:
    """How much waits for a person and is not muted: what is unread or unanswered, and what runs ask; up to 500."""
    return min(COUNTED, work.mail.count_waiting(HUMAN, work.now, COUNTED) + len(work.run_talk.pending(COUNTED)))


def _runs(work: Work) -> list[Run]:
    """Runs that are under way, and those that ended within the hour."""
    return [
        run
        for run in work.runs.page(RUNS)
        if run.state is RunState.ACTIVE or work.now - (run.ended_at or run.updated_at) < HOUR
    ]
