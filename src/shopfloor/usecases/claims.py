"""Who works on what: claimed or assigned tasks, held under a lease, given back in the end.

An agent holds its tasks for as long as it gives signs of life. Each claim has a number, the fence: whoever
reports with an older one has lost the task, and is told so.
"""

from __future__ import annotations

from typing import Any

from shopfloor.domain.actors import ORCHESTRATOR, SUPERVISOR, Agent, Kind
from shopfloor.domain.epics import EpicState
from shopfloor.domain.events import EpicChanged
from shopfloor.domain.mail import FLOOR, agent_party
from shopfloor.domain.tasks import BoardKind, State, Task, check_move
from shopfloor.errors import InvalidInput, PermissionDenied, WrongState
from shopfloor.repositories.work import Work
from shopfloor.usecases import mail, tasks

LEADERS = (SUPERVISOR, ORCHESTRATOR)

_STOP = "Stop working on it; get another task: mcp__task__claim"
_IN_HAND = (State.ASSIGNED, State.IN_PROGRESS)


def current_task(work: Work) -> Task:
    """The task that the caller has in hand."""
    number = work.agents.get(work.actor.name).current_task
    if number is None:
        raise WrongState(f"{work.actor.title} doesn't have a current task", hint="Get one: mcp__task__claim")
    return work.tasks.get(number)


def task_of(work: Work, number: int | None) -> Task:
    """The given task, or the caller's own. A worker acts only on what it holds."""
    task = current_task(work) if number is None else work.tasks.get(number)
    work.task = task.number
    if work.actor.role not in LEADERS and task.assignee != work.actor.name:
        raise WrongState(_lost(work, task), hint=_STOP, task=f"task-{task.number}")
    return task


def claim(work: Work, number: int | None) -> tuple[Task | None, str]:
    """The next ready task, or the given one, from now on the caller's; or None and why."""
    agent = work.agents.get(work.actor.name)
    if agent.failed(work.now):
        raise WrongState("Agent has failed: it crashed too often, and pauses before it tries again")
    held = None if agent.current_task is None else work.tasks.get(agent.current_task)
    if held is not None and held.state is State.IN_PROGRESS and held.number != number:
        raise WrongState(
            f"You hold task-{held.number} already",
            task=f"task-{held.number}",
            hint=f"Finish it first, or take it up again: mcp__task__claim with taskId task-{held.number}",
        )
    task, reason = _claimable(work, agent, held) if number is None else _given(work, agent, number)
    return (None, reason) if task is None else (_begin(work, agent, task), "")


def _claimable(work: Work, agent: Agent, held: Task | None) -> tuple[Task | None, str]:
    if held is not None and held.state is State.ASSIGNED and held.open_blockers == 0:
        return held, ""
    number = _epic_of(work, agent)
    if number is not None:
        epic = work.epics.get(number)
        if epic.state not in (EpicState.PLANNING, EpicState.IN_PROGRESS):
            return None, f"epic-{number} is {epic.state}"
    ready = work.tasks.ready("" if number is None else str(number))
    if ready:
        return ready[0], ""
    where = f"epic-{number}" if number is not None else "the tasks without an epic; you have no epic"
    return None, f"No task is ready in {where}"


def _epic_of(work: Work, agent: Agent) -> int | None:
    """The agent's epic, or else its supervisor's."""
    if agent.current_epic is not None or agent.supervisor is None:
        return agent.current_epic
    return work.agents.get(agent.supervisor).current_epic


def _given(work: Work, agent: Agent, number: int) -> tuple[Task | None, str]:
    work.task = number
    work.tasks.hold(number)
    task = work.tasks.get(number)
    mine = task.assignee == agent.name and task.state in _IN_HAND
    if task.state is not State.PENDING and not mine:
        holder = f", held by {task.assignee}" if task.assignee else ""
        return None, f"task-{number} is {task.state}{holder}"
    if task.open_blockers and task.state is not State.IN_PROGRESS:
        return None, tasks.why_blocked(work, number)
    if task.epic is not None and not work.epics.get(task.epic).open:
        return None, f"epic-{task.epic} has ended"
    return task, ""


def _begin(work: Work, agent: Agent, task: Task) -> Task:
    """The task, begun by the agent under a new fence."""
    begun = work.tasks.change(
        task.number,
        work.now,
        state=State.IN_PROGRESS.value,
        assignee=agent.name,
        fence=task.fence + 1,
        attempts=task.attempts + 1,
    )
    work.agents.hold(agent.name, task.number, work.now)
    work.agents.touch(agent.name, work.now)
    _begin_epic(work, task.epic)
    return tasks.changed(work, begun)


def _begin_epic(work: Work, number: int | None) -> None:
    """Planning is over when the first task is begun."""
    if number is not None and work.epics.get(number).state is EpicState.PLANNING:
        epic = work.epics.move(number, EpicState.IN_PROGRESS, work.now)
        work.tell(EpicChanged(epic=number, state=epic.state.value, by=work.actor.key))


def lease_end(work: Work, task: Task) -> int:
    """When the task goes back to the queue if its holder stays silent."""
    assert task.assignee is not None
    return work.agents.get(task.assignee).seen_at(work.now) + work.rules.silence


def assign(work: Work, number: int, name: str) -> Task:
    """The task, given to an agent, which is told by mail. Whoever held it before has lost it."""
    agent = work.agents.active(name)
    if agent.failed(work.now):
        raise WrongState(f"{name} has failed: it crashed too often, and pauses before it tries again")
    work.tasks.hold(number)
    task = work.tasks.get(number)
    work.task = number
    if task.state in (State.COMPLETED, State.CANCELLED):
        raise InvalidInput(f"task-{number} is {task.state}; nobody can work on it", field="taskId")
    if task.assignee == name and task.state is not State.PENDING:
        return task
    state = State.ASSIGNED if task.state is State.PENDING else task.state
    given = work.tasks.change(number, work.now, state=state.value, assignee=name, fence=task.fence + 1)
    if task.assignee is not None:
        let_go(work, task.assignee, number)
    if state in _IN_HAND:
        take_up(work, given)
    _tell_holder(work, given, f"Assigned to you: task-{number} {task.title}", task.description or "")
    return tasks.changed(work, given)


def report(work: Work, task: Task, state: State, *, fence: int | None, comment: str | None, **facts: Any) -> Task:
    """The task in its new state, as the caller says who holds it or leads."""
    if fence is not None and fence != task.fence:
        raise WrongState(_lost(work, task, fence), hint=_STOP, task=f"task-{task.number}", fence=task.fence)
    if state is State.COMPLETED and work.actor.kind is Kind.AGENT and work.actor.role not in LEADERS:
        raise PermissionDenied(
            "Only a supervisor or orchestrator completes a task", hint="Move it to REVIEW, and they will look at it"
        )
    check_move(BoardKind.EPIC, task.state, state)
    if comment:
        tasks.comment(work, task, comment)
    if state is not task.state:
        facts |= _entering(work, task, state)
    moved = tasks.move(work, work.tasks, task, state, **facts)
    _hand_over(work, task, moved, comment)
    return tasks.changed(work, moved)


def _entering(work: Work, task: Task, state: State) -> dict[str, Any]:
    """What else changes when a task enters a state."""
    if state is State.PENDING:
        return {"assignee": None}
    if state not in _IN_HAND:
        return {}
    gone = task.assignee is None or work.agents.get(task.assignee).retired_at is not None
    if gone and work.actor.kind is not Kind.AGENT:
        raise InvalidInput(f"Nobody holds task-{task.number}", field="state", hint="Give it to an agent first")
    facts: dict[str, Any] = {"assignee": work.actor.name} if gone else {}
    if state is State.IN_PROGRESS and task.state in (State.PENDING, State.ASSIGNED, State.FAILED):
        if blocked := tasks.why_blocked(work, task.number):
            raise InvalidInput(f"{blocked}, and cannot be begun", field="state")
        if task.epic is not None:
            tasks.open_epic(work, task.epic)
            _begin_epic(work, task.epic)
        facts |= {"fence": task.fence + 1, "attempts": task.attempts + 1}
    return facts


def _hand_over(work: Work, before: Task, task: Task, comment: str | None) -> None:
    """Keep what agents hold in step with the task, and tell a holder what others did to it."""
    if task.state in _IN_HAND:
        take_up(work, task)
    elif before.assignee is not None:
        let_go(work, before.assignee, task.number)
    if task.state is before.state or before.assignee in (None, work.actor.name):
        return
    if task.state is State.IN_PROGRESS:
        what = "Changes requested" if before.state is State.REVIEW else "To be continued"
        _tell_holder(work, task, f"{what}: task-{task.number} {task.title}", comment or "")
    elif task.state is State.CANCELLED and before.state is not State.PENDING:
        _tell_holder(work, task, f"Cancelled: task-{task.number} {task.title}", comment or "")


def take_up(work: Work, task: Task) -> None:
    """The assignee has the task in hand, unless it has another one."""
    assert task.assignee is not None
    if work.agents.get(task.assignee).current_task is None:
        work.agents.hold(task.assignee, task.number, work.now)


def let_go(work: Work, name: str, number: int) -> None:
    """The agent no longer has the task in hand; the next of its tasks takes its place."""
    if work.agents.get(name).current_task == number:
        rest = [task.number for task in work.tasks.held_by(name, 2) if task.number != number]
        work.agents.hold(name, rest[0] if rest else None, work.now)


def give_back(work: Work, task: Task, reason: str) -> Task:
    """The task, back in the queue, or failed when it has been begun often enough."""
    assert task.assignee is not None
    failed = task.state is State.IN_PROGRESS and task.attempts >= work.rules.attempts
    state = State.FAILED if failed else State.PENDING
    returned = work.tasks.change(
        task.number, work.now, state=state.value, assignee=task.assignee if failed else None, fence=task.fence + 1
    )
    let_go(work, task.assignee, task.number)
    work.tasks.add_comment(task.number, FLOOR.name, f"{state.value}: {reason}", work.now)
    work.decisions.add(
        reference=work.reference,
        kind="recovery",
        subject=f"agent:{task.assignee}",
        actor="floor:reconciler",
        toolset="factory",
        tool="reconciler",
        decision=f"task-{task.number} is {state.value} again" if not failed else f"task-{task.number} has failed",
        reasoning=reason,
        context=f'{{"attempts":{task.attempts}}}',
        task=task.number,
        created_at=work.now,
    )
    return tasks.changed(work, returned)


def _tell_holder(work: Work, task: Task, subject: str, body: str) -> None:
    assert task.assignee is not None
    by = agent_party(work.actor.name) if work.actor.kind is Kind.AGENT else None
    if task.assignee != work.actor.name:
        mail.tell(work, [agent_party(task.assignee)], subject[:200], body or "No comment was given.", about=by)


def _lost(work: Work, task: Task, fence: int | None = None) -> str:
    """What happened to a task that somebody thought was theirs."""
    stale = "" if fence is None else f" (your fence is {fence}, the task's is {task.fence})"
    if task.assignee == work.actor.name:
        return (
            f"Your claim of task-{task.number} is no longer the current one{stale}: it was claimed or given anew since"
        )
    holder = f", held by {task.assignee}" if task.assignee else ""
    notes = [note.body for note in work.tasks.comments(task.number, 20) if note.author == FLOOR.name]
    return f"You do not hold task-{task.number}{stale}: it is {task.state}{holder}. {''.join(notes[-1:])}".rstrip()
