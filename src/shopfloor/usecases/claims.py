"""Claims: tasks are claimed or assigned, held under a lease, and returned in the end.

An agent holds its tasks for as long as it makes calls. Each claim has a fence, a number that grows: a report with an
older fence comes from an agent that has lost the task, and is rejected.
"""

from __future__ import annotations

from typing import Any

from shopfloor.domain.epics import EpicState
from shopfloor.domain.events import EpicChanged
from shopfloor.domain.mail import SYSTEM, agent_participant
from shopfloor.domain.principals import ORCHESTRATOR, REVIEWER, SUPERVISOR, Agent, Kind
from shopfloor.domain.tasks import MOVES, BoardKind, State, Task, check_move
from shopfloor.errors import InvalidInput, InvalidState, PermissionDenied
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import approvals, mail, processes, tasks

LEADERS = (SUPERVISOR, ORCHESTRATOR)

HELD_STATES = (State.ASSIGNED, State.IN_PROGRESS)

MAX_EPICS = 20
"""How many epics of each state are searched for an agent that belongs to none."""

RECONCILER = f"{SYSTEM.key}:reconciler"
"""The server's key when it returns the tasks of dead agents."""


def get_current_task(uow: UnitOfWork) -> Task:
    """Return the task that the caller holds."""
    number = uow.agents.get(uow.actor.name).current_task
    if number is None:
        raise InvalidState(f"{uow.actor.title} doesn't have a current task", rule="no_current_task")
    return uow.tasks.get(number)


def get_held_task(uow: UnitOfWork, number: int | None) -> Task:
    """Return the given task, or the caller's own. A worker may only act on a task that it holds."""
    task = get_current_task(uow) if number is None else uow.tasks.get(number)
    uow.task = task.number
    if uow.actor.role == REVIEWER:
        approvals.check_reviewer(uow, task)
    elif uow.actor.role not in LEADERS and task.assignee != uow.actor.name:
        raise InvalidState(_describe_loss(uow, task), rule="task_lost", task=f"task-{task.number}")
    return task


def claim_task(uow: UnitOfWork, number: int | None) -> tuple[Task | None, str]:
    """Give the next ready task, or the given one, to the caller; or return None and the reason."""
    agent = uow.agents.get(uow.actor.name)
    if agent.has_failed(uow.now):
        raise InvalidState("Agent has failed: it crashed too often and is in back-off")
    held = None if agent.current_task is None else uow.tasks.get(agent.current_task)
    if held is not None and held.state is State.IN_PROGRESS and held.number != number:
        raise InvalidState(
            f"You already hold task-{held.number}",
            task=f"task-{held.number}",
            rule="holds_task",
        )
    task, reason = _find_ready_task(uow, agent, held) if number is None else _check_claimable(uow, agent, number)
    if task is None:
        return None, reason
    # The new fence invalidates an earlier holder's claim: its next report carries the old number.
    started = uow.tasks.transition(
        task,
        State.IN_PROGRESS,
        uow.now,
        assignee=agent.name,
        fence=task.fence + 1,
        attempts=task.attempts + 1,
        held_at=task.held_at if task.state is State.IN_PROGRESS else uow.now,
    )
    uow.agents.set_task(agent.name, task.number, uow.now)
    uow.agents.touch(agent.name, uow.now)
    _start_epic(uow, task.epic)
    return tasks.emit_change(uow, started), ""


def _find_ready_task(uow: UnitOfWork, agent: Agent, held: Task | None) -> tuple[Task | None, str]:
    # Tasks that a supervisor assigned come before the queue.
    if held is not None and held.state is State.ASSIGNED and held.open_blockers == 0:
        return held, ""
    number = agent.current_epic
    if number is None and agent.supervisor is not None:
        number = uow.agents.get(agent.supervisor).current_epic
    if number is not None:
        epic = uow.epics.get(number)
        if epic.state not in (EpicState.PLANNING, EpicState.IN_PROGRESS):
            return None, f"epic-{number} is {epic.state}"
    ready = uow.tasks.list_ready("" if number is None else str(number))
    if ready:
        return ready[0], ""
    if number is not None:
        return None, f"No task is ready in epic-{number}"
    if agent.supervisor is not None:
        return None, "No task without an epic is ready; you have no epic"
    return _find_ready_task_of_epics(uow), "No task is ready"


def _find_ready_task_of_epics(uow: UnitOfWork) -> Task | None:
    """Return a ready task of an open epic without a crew, for an agent that has neither an epic nor a supervisor."""
    for state in (EpicState.IN_PROGRESS, EpicState.PLANNING):
        for epic in uow.epics.list_page(limit=MAX_EPICS, state=state):
            # A crew merges the work of its own agents only.
            if uow.crews.list_of_epic(epic.id, 1):
                continue
            if ready := uow.tasks.list_ready(str(epic.id)):
                return ready[0]
    return None


def _check_claimable(uow: UnitOfWork, agent: Agent, number: int) -> tuple[Task | None, str]:
    uow.task = number
    # Lock before reading. A read followed by an update assigned 942 of 1,000 tasks twice on PostgreSQL.
    uow.tasks.lock(number)
    task = uow.tasks.get(number)
    mine = task.assignee == agent.name and task.state in HELD_STATES
    if task.state is not State.PENDING and not mine:
        holder = f", assigned to {task.assignee}" if task.assignee else ""
        return None, f"task-{number} is {task.state}{holder}"
    if task.open_blockers and task.state is not State.IN_PROGRESS:
        return None, tasks.describe_blockers(uow, number)
    if task.epic is not None and not uow.epics.get(task.epic).is_open:
        return None, f"epic-{task.epic} has ended"
    return task, ""


def _start_epic(uow: UnitOfWork, number: int | None) -> None:
    """Move the epic out of PLANNING when its first task starts."""
    if number is not None and uow.epics.get(number).state is EpicState.PLANNING:
        epic = uow.epics.set_state(number, EpicState.IN_PROGRESS, uow.now)
        uow.emit(EpicChanged(epic=number, state=epic.state.value, by=uow.actor.key))


def get_lease_expiry(uow: UnitOfWork, task: Task) -> int:
    """Return when the task goes back to the queue if its holder makes no call."""
    assert task.assignee is not None
    agent, up_since = uow.agents.get(task.assignee), processes.find_up_since(uow)
    return find_last_sign(uow, agent, task, up_since) + uow.limits.silence


def find_last_sign(uow: UnitOfWork, holder: Agent, task: Task, up_since: int | None) -> int:
    """Return the time from which the silence of a task's holder counts.

    It is the latest of the holder's last call, the last change of the task, and the start of the server's uptime, as in
    recovery.
    """
    return max(holder.seen_at(uow.now), task.updated_at, up_since or 0)


def assign_task(uow: UnitOfWork, number: int, name: str) -> Task:
    """Assign the task to an agent and mail it. The previous holder loses the task."""
    agent = uow.agents.get_active(name)
    if agent.has_failed(uow.now):
        raise InvalidState(f"{name} has failed: it crashed too often and is in back-off")
    uow.tasks.lock(number)
    task = uow.tasks.get(number)
    uow.task = number
    if not can_assign(task):
        raise InvalidInput(f"task-{number} is {task.state}; it cannot be assigned", field="taskId")
    if task.assignee == name and task.state is not State.PENDING:
        return task
    state = State.ASSIGNED if task.state is State.PENDING else task.state
    assigned = uow.tasks.transition(task, state, uow.now, assignee=name, fence=task.fence + 1, held_at=uow.now)
    if task.assignee is not None:
        release_current_task(uow, task.assignee, number)
    if state in HELD_STATES:
        set_current_task(uow, assigned)
    _mail_assignee(uow, assigned, f"Assigned to you: task-{number} {task.title}", task.description or "")
    return tasks.emit_change(uow, assigned)


def report_state(
    uow: UnitOfWork, task: Task, state: State, *, fence: int | None, comment: str | None, **facts: Any
) -> Task:
    """Move a task that the caller holds or leads."""
    _check_report(uow, task, state, fence)
    if comment:
        tasks.add_comment(uow, task, comment)
    if approvals.settle_merge(uow, task, state, comment):
        return tasks.emit_change(uow, task)
    if state is not task.state:
        facts |= _changes_on_entry(uow, task, state)
    moved = tasks.move_task(uow, uow.tasks, task, state, **facts)
    if state in HELD_STATES:
        set_current_task(uow, moved)
    elif task.assignee is not None:
        release_current_task(uow, task.assignee, task.number)
    # A holder gets mail about what others do to its task, but not about its own reports.
    if state is not task.state and task.assignee not in (None, uow.actor.name):
        if state is State.IN_PROGRESS:
            what = "Changes requested" if task.state is State.REVIEW else "Please continue"
            _mail_assignee(uow, moved, f"{what}: task-{moved.number} {moved.title}", comment or "")
        elif state is State.CANCELLED and task.state is not State.PENDING:
            _mail_assignee(uow, moved, f"Cancelled: task-{moved.number} {moved.title}", comment or "")
    return tasks.emit_change(uow, moved)


def _check_report(uow: UnitOfWork, task: Task, state: State, fence: int | None) -> None:
    """Reject a report with an old fence, a completion by a caller that may not complete tasks, and an illegal move."""
    if fence is not None and fence != task.fence:
        raise InvalidState(
            _describe_loss(uow, task, fence), rule="task_lost", task=f"task-{task.number}", fence=task.fence
        )
    if uow.actor.role == REVIEWER and state not in (State.COMPLETED, State.IN_PROGRESS):
        raise PermissionDenied("A reviewer approves the work with COMPLETED, or requests changes with IN_PROGRESS")
    if state is State.COMPLETED and uow.actor.kind is Kind.AGENT and uow.actor.role not in (*LEADERS, REVIEWER):
        raise PermissionDenied(
            "Only a supervisor or orchestrator completes a task", hint="Move it to REVIEW, and they will review it"
        )
    check_move(BoardKind.EPIC, task.state, state)


def complete_task(uow: UnitOfWork, number: int, comment: str | None) -> Task:
    """Complete a task from any open state, for a person who has checked it. Its holder gets mail."""
    uow.tasks.lock(number)
    task = uow.tasks.get(number)
    uow.task = number
    if task.state is State.COMPLETED:
        return task
    if task.state is State.CANCELLED:
        check_move(BoardKind.EPIC, task.state, State.COMPLETED)
    if blocked := tasks.describe_blockers(uow, number):
        raise InvalidInput(f"{blocked}, and cannot be completed", field="state")
    if task.epic is not None:
        tasks.require_open_epic(uow, task.epic)
        _start_epic(uow, task.epic)
    if comment:
        tasks.add_comment(uow, task, comment)
    if approvals.settle_merge(uow, task, State.COMPLETED, comment):
        return tasks.emit_change(uow, task)
    moved = task
    # The table of moves has no shortcut: a task is completed from REVIEW, which follows IN_PROGRESS.
    for state in (State.IN_PROGRESS, State.REVIEW, State.COMPLETED):
        if state is State.IN_PROGRESS and task.state is State.REVIEW:
            continue
        # A new fence, so that a late report from the holder is rejected.
        moved = tasks.move_task(uow, uow.tasks, moved, state, fence=task.fence + 1)
    if task.assignee is not None:
        release_current_task(uow, task.assignee, number)
        _mail_assignee(uow, moved, f"Completed: task-{number} {task.title}", comment or "")
    return tasks.emit_change(uow, moved)


def _changes_on_entry(uow: UnitOfWork, task: Task, state: State) -> dict[str, Any]:
    """Return what else changes when a task enters a state."""
    if state is State.PENDING:
        return {"assignee": None, "held_at": None}
    if state not in HELD_STATES:
        return {}
    if obstacle := _find_obstacle(uow, task, state):
        raise obstacle
    facts: dict[str, Any] = {"assignee": uow.actor.name} if _is_without_holder(uow, task) else {}
    if _starts_attempt(task, state):
        if task.epic is not None:
            tasks.require_open_epic(uow, task.epic)
            _start_epic(uow, task.epic)
        facts |= {"fence": task.fence + 1, "attempts": task.attempts + 1, "held_at": uow.now}
    return facts


def list_moves(uow: UnitOfWork, task: Task) -> list[State]:
    """Return the states to which the caller, a person, can move the task now without being rejected."""
    if task.deleted_at is not None:
        return []
    return [
        state
        for state in MOVES[BoardKind.EPIC][task.state]
        if state not in HELD_STATES
        or (
            _find_obstacle(uow, task, state) is None
            and (not _starts_attempt(task, state) or task.epic is None or uow.epics.get(task.epic).is_open)
        )
    ]


def can_complete(uow: UnitOfWork, task: Task) -> bool:
    """Return whether a person can complete the task now, from any open state."""
    return (
        task.deleted_at is None
        and task.state not in (State.COMPLETED, State.CANCELLED)
        and task.open_blockers == 0
        and (task.epic is None or uow.epics.get(task.epic).is_open)
    )


def can_assign(task: Task) -> bool:
    """Return whether the task can be given to an agent."""
    return task.deleted_at is None and task.state not in (State.COMPLETED, State.CANCELLED)


def _find_obstacle(uow: UnitOfWork, task: Task, state: State) -> InvalidInput | None:
    """Return why the caller cannot move the task to a state in which an agent holds it, or None."""
    if uow.actor.kind is not Kind.AGENT and _is_without_holder(uow, task):
        return InvalidInput(f"No agent holds task-{task.number}", field="state", hint="Assign it to an agent first")
    if task.open_blockers and _starts_attempt(task, state):
        return InvalidInput(f"{tasks.describe_blockers(uow, task.number)}, and cannot start", field="state")
    return None


def _is_without_holder(uow: UnitOfWork, task: Task) -> bool:
    return task.assignee is None or uow.agents.get(task.assignee).retired_at is not None


def _starts_attempt(task: Task, state: State) -> bool:
    # A return from REVIEW or BLOCKED is the same attempt of the same holder, so its fence stays valid.
    return state is State.IN_PROGRESS and task.state in (State.PENDING, State.ASSIGNED, State.FAILED)


def set_current_task(uow: UnitOfWork, task: Task) -> None:
    """Make the task the assignee's current task, unless it has one."""
    assert task.assignee is not None
    if uow.agents.get(task.assignee).current_task is None:
        uow.agents.set_task(task.assignee, task.number, uow.now)


def release_current_task(uow: UnitOfWork, name: str, number: int) -> None:
    """Take the task from the agent; the next of its tasks becomes the current one."""
    if uow.agents.get(name).current_task == number:
        rest = [task.number for task in uow.tasks.list_held_by(name, 2) if task.number != number]
        uow.agents.set_task(name, rest[0] if rest else None, uow.now)


def return_task(uow: UnitOfWork, task: Task, reason: str, *, by: str = RECONCILER, failed: bool | None = None) -> Task:
    """Return the task to the queue, or fail it if it was started too often.

    `by` is the key that the log and the event name. `failed` decides instead of the number of attempts.
    """
    assert task.assignee is not None
    if failed is None:
        failed = task.state is State.IN_PROGRESS and task.attempts >= uow.limits.attempts
    state = State.FAILED if failed else State.PENDING
    returned = uow.tasks.transition(
        task,
        state,
        uow.now,
        assignee=task.assignee if failed else None,
        fence=task.fence + 1,
        held_at=None,
    )
    release_current_task(uow, task.assignee, task.number)
    uow.tasks.add_comment(task.number, SYSTEM.name, f"{state.value}: {reason}", uow.now)
    uow.decisions.add(
        reference=uow.reference,
        kind="recovery",
        subject=f"agent:{task.assignee}",
        actor=by,
        toolset="factory",
        tool="reconciler" if by == RECONCILER else "return_task",
        decision=f"task-{task.number} is {state.value} again" if not failed else f"task-{task.number} has failed",
        reasoning=reason,
        context=f'{{"attempts":{task.attempts}}}',
        task=task.number,
        created_at=uow.now,
    )
    # By default not the caller: a task returns because its agent is silent, has crashed or was retired. The first is found
    # by code that runs as the operator, who did nothing.
    return tasks.emit_change(uow, returned, by=by)


def _mail_assignee(uow: UnitOfWork, task: Task, subject: str, body: str) -> None:
    assert task.assignee is not None
    by = agent_participant(uow.actor.name) if uow.actor.kind is Kind.AGENT else None
    if task.assignee != uow.actor.name:
        mail.send_system_mail(
            uow, [agent_participant(task.assignee)], subject[:200], body or "No comment was given.", about=by
        )


def _describe_loss(uow: UnitOfWork, task: Task, fence: int | None = None) -> str:
    """Describe what happened to a task that the caller no longer holds."""
    stale = "" if fence is None else f" (your fence is {fence}, the task's is {task.fence})"
    if task.assignee == uow.actor.name:
        return f"Your claim of task-{task.number} is no longer current{stale}: it was claimed or assigned again since"
    holder = f", assigned to {task.assignee}" if task.assignee else ""
    notes = [note.body for note in uow.tasks.list_comments(task.number, 20) if note.author == SYSTEM.name]
    return f"You do not hold task-{task.number}{stale}: it is {task.state}{holder}. {''.join(notes[-1:])}".rstrip()
