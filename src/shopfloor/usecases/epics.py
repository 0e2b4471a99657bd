"""Epics: planned, worked on, completed."""

from __future__ import annotations

from shopfloor.domain.epics import EPIC_MOVES, Epic, EpicState, check_epic_move
from shopfloor.domain.events import EpicChanged
from shopfloor.domain.principals import WORKER, Agent
from shopfloor.errors import InvalidInput, InvalidState
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import claims


def create_epic(
    uow: UnitOfWork, title: str, description: str, linear_issue_id: str | None, linear_issue_url: str | None
) -> Epic:
    """Create an epic in PLANNING."""
    epic = uow.epics.add(
        title=title,
        description=description,
        linear_issue_id=linear_issue_id,
        linear_issue_url=linear_issue_url,
        now=uow.now,
    )
    return _emit_change(uow, epic)


def assign_epic(uow: UnitOfWork, number: int, agent: str) -> tuple[Epic, Agent]:
    """Assign an agent to an epic: it claims this epic's tasks."""
    epic = uow.epics.get(number)
    if not epic.is_open:
        raise InvalidInput(f"epic-{number} is {epic.state}; it takes no further work", field="epicId")
    uow.agents.get_active(agent)
    uow.agents.set_epic(agent, number, uow.now)
    return epic, uow.agents.get(agent)


def move_epic(uow: UnitOfWork, number: int, state: EpicState) -> Epic:
    """Move an epic to another state. It can be completed only when none of its tasks is open."""
    epic = uow.epics.get(number)
    check_epic_move(epic.state, state)
    if state is epic.state:
        return epic
    epic = uow.epics.set_state(number, state, uow.now)
    if state is EpicState.COMPLETED and (task := uow.tasks.find_open(str(number))) is not None:
        raise InvalidInput(
            f"epic-{number} cannot be completed: task-{task.number} is {task.state}",
            field="state",
            rule="open_tasks",
        )
    return _emit_change(uow, epic)


def can_complete(uow: UnitOfWork, epic: Epic) -> bool:
    """Return whether none of the epic's tasks is open."""
    return uow.tasks.find_open(str(epic.id)) is None


def list_moves(uow: UnitOfWork, epic: Epic) -> list[EpicState]:
    """Return the states to which the epic can be moved now."""
    return [state for state in EPIC_MOVES[epic.state] if state is not EpicState.COMPLETED or can_complete(uow, epic)]


def get_current_epic(uow: UnitOfWork) -> Epic:
    """Return the caller's epic: for a worker that of its task, for any other agent the assigned one."""
    agent = uow.agents.get(uow.actor.name)
    number = claims.get_current_task(uow).epic if agent.type == WORKER else agent.current_epic
    if number is None:
        raise InvalidState("Agent doesn't have a current epic", rule="no_current_epic")
    return uow.epics.get(number)


def _emit_change(uow: UnitOfWork, epic: Epic) -> Epic:
    uow.emit(EpicChanged(epic=epic.id, state=epic.state.value, by=uow.actor.key))
    return epic
