"""Epics: planned, worked on, completed."""

from __future__ import annotations

from shopfloor.domain.actors import WORKER, Agent
from shopfloor.domain.epics import Epic, EpicState, check_epic_move
from shopfloor.domain.events import EpicChanged
from shopfloor.errors import InvalidInput, WrongState
from shopfloor.repositories.work import Work
from shopfloor.usecases import claims


def create(work: Work, title: str, description: str, linear_issue_id: str | None, linear_issue_url: str | None) -> Epic:
    """A new epic, in planning."""
    epic = work.epics.add(
        title=title,
        description=description,
        linear_issue_id=linear_issue_id,
        linear_issue_url=linear_issue_url,
        now=work.now,
    )
    return _changed(work, epic)


def assign(work: Work, number: int, agent: str) -> tuple[Epic, Agent]:
    """Let an agent work for an epic."""
    epic = work.epics.get(number)
    if not epic.open:
        raise InvalidInput(f"epic-{number} is {epic.state}; nobody can work for it", field="epicId")
    work.agents.active(agent)
    work.agents.join(agent, number, work.now)
    return epic, work.agents.get(agent)


def move(work: Work, number: int, state: EpicState) -> Epic:
    """The epic in its new state; it is complete only when none of its tasks is open."""
    epic = work.epics.get(number)
    check_epic_move(epic.state, state)
    if state is epic.state:
        return epic
    epic = work.epics.move(number, state, work.now)
    if state is EpicState.COMPLETED and (task := work.tasks.any_open(str(number))) is not None:
        raise InvalidInput(
            f"epic-{number} cannot be completed: task-{task.number} is {task.state}",
            field="state",
            hint="Every task must be COMPLETED, FAILED or CANCELLED first: mcp__task__list",
        )
    return _changed(work, epic)


def current(work: Work) -> Epic:
    """The caller's epic: a worker's by way of its task, anybody else's by assignment."""
    agent = work.agents.get(work.actor.name)
    number = claims.current_task(work).epic if agent.type == WORKER else agent.current_epic
    if number is None:
        raise WrongState("Agent doesn't have a current epic", hint="Be assigned to one first: mcp__epic__assign")
    return work.epics.get(number)


def _changed(work: Work, epic: Epic) -> Epic:
    work.tell(EpicChanged(epic=epic.id, state=epic.state.value, by=work.actor.key))
    return epic
