"""Crews: how they are created, driven, steered and finished."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable

from shopfloor.domain.crew_events import CrewChanged, CrewEnded, CrewStarted
from shopfloor.domain.crews import (
    MAX_CREW_TASKS,
    AskedQuestion,
    Crew,
    CrewStatus,
    CrewTask,
    Merge,
    Phase,
    Role,
    check_crew_fence,
)
from shopfloor.domain.epics import EpicState
from shopfloor.domain.mail import HUMAN, SYSTEM, Mail, Question, agent_participant
from shopfloor.domain.principals import ORCHESTRATOR, REVIEWER, WORKER, Agent
from shopfloor.domain.run_events import RunSteered
from shopfloor.domain.runs import Run, RunState, Wanted
from shopfloor.domain.tasks import FINISHED, State, Task
from shopfloor.domain.usage import UsageKind
from shopfloor.errors import AgentNotFound, InvalidInput, InvalidState
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import agents, claims, epics, mail, processes, recovery, tasks, usage

MAX_RUNS = 5000
"""Maximum number of a crew's runs that are counted: one for each task, review and plan."""
MAX_COMMENTS = 20
MAX_REQUESTS = 100
"""Maximum number of a crew's questions on its report and its page."""

_MAX_CREWS = 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_MAX_SENT = 20
"""Number of an agent's newest mails that are searched for open questions."""


def find_free_name(uow: UnitOfWork, wanted: str) -> str:
    """Return the name, or the first of NAME-2, NAME-3, … that no crew has."""
    # Short, because the names of the crew's agents and runs start with it.
    base = re.sub(r"[^A-Za-z0-9_-]+", "-", wanted).strip("-_")[:30] or "crew"
    for name in [base, *(f"{base}-{number}" for number in range(2, 10_000))]:
        if uow.crews.find(name) is None:
            return name
    raise InvalidInput(f"there are too many crews named {base}", rule="too_many_crews")


def create_crew(
    uow: UnitOfWork,
    name: str,
    *,
    epic: int | None,
    title: str,
    spec: str,
    workers: int,
    project: str,
    branch: str,
    base: str,
    options: str,
) -> Crew:
    """Create a crew that no process drives yet, for an epic or for a specification to be planned.

    Crews on the same epic in one project share its branch, also with a crew that ended before the epic was done: a task
    needs the work of the tasks that it depends on.
    """
    if not _NAME.fullmatch(name):
        hint = "Use 1 to 40 letters, digits, '.', '_' or '-', beginning with a letter or digit"
        raise InvalidInput(f"'{name[:80]}' cannot be the name of a crew", field="name", hint=hint)
    phase = Phase.PLAN if epic is None else Phase.WORK
    if epic is None:
        epic = epics.create_epic(uow, title, spec, None, None).id
    elif not uow.epics.get(epic).is_open:
        raise InvalidInput(f"epic-{epic} has ended; it takes no further work", field="epicId")
    for other in uow.crews.list_of_epic(epic, _MAX_CREWS):
        if other.project == project and other.state is not RunState.COMPLETED:
            branch = other.branch
            # If a person has removed the branch of a crew that ended, the work begins at the present commit.
            base = other.base if other.state is RunState.ACTIVE else base
        if other.state is not RunState.ACTIVE:
            _release_tasks(uow, other, f"{other.name} has ended, and {name} continues its epic")
    facts = {"workers": workers, "project": project, "branch": branch, "base": base, "options": options}
    if not uow.crews.add(name, epic=epic, phase=phase, now=uow.now, **facts):  # type: ignore[arg-type]
        raise InvalidInput(f"the crew '{name}' already exists", rule="crew_exists", crew=name)
    return uow.crews.get(name)


def _release_tasks(uow: UnitOfWork, crew: Crew, reason: str) -> None:
    """Return the tasks that the workers of a crew hold to the queue, instead of when their leases end."""
    for worker in _list_workers(uow, crew.name):
        for task in uow.tasks.list_held_by(worker, MAX_CREW_TASKS):
            return_task(uow, task.number, worker, reason, attempts=task.attempts + 1, final=False, hint="")


# Driving. One process at a time drives a crew. As with runs, its fence grows with every driver.


def drive_crew(uow: UnitOfWork, name: str, options: str, workers: int | None, *, retry_failed: bool = False) -> Crew:
    """Make this process the driver of the crew, and return the crew with its new fence.

    With `retry_failed`, its failed tasks return to the queue with all their attempts.
    """
    processes.reap_dead(uow)
    crew = uow.crews.update(name, uow.now)
    if is_driven(uow, crew) and crew.process != uow.process:
        raise InvalidState(f"the crew '{name}' is driven by another process", rule="crew_driven", crew=name)
    if crew.state is RunState.COMPLETED:
        raise InvalidState(f"the crew '{name}' is completed", rule="crew_completed", crew=name, epic=crew.epic)
    crew = uow.crews.update(
        name,
        uow.now,
        state=RunState.ACTIVE,
        wanted=Wanted.GO,
        reason=None,
        ended_at=None,
        options=options,
        workers=crew.workers if workers is None else workers,
        process=uow.process,
        fence=crew.fence + 1,
        accounted_at=None,
    )
    # A crew that ended with failed tasks left its epic blocked, and tasks of a blocked epic cannot be claimed.
    if uow.epics.get(crew.epic).state is EpicState.BLOCKED:
        epics.move_epic(uow, crew.epic, EpicState.IN_PROGRESS)
    if retry_failed:
        _retry_failed_tasks(uow, crew)
    names = _list_workers(uow, name)
    # Resuming a crew is a retry: its agents skip their back-off and continue blocked tasks. A person who was asked has
    # answered by mail, which is part of the next prompt.
    for worker in names:
        if uow.agents.get(worker).failed_at is not None:
            uow.agents.mark_recovered(worker, uow.now)
    for task in list_tasks(uow, crew):
        if task.state is State.BLOCKED and task.assignee in names:
            _continue_task(uow, crew, task, f"{crew.name} was resumed")
    uow.emit(CrewStarted(crew=name))
    return crew


def continue_answered_tasks(uow: UnitOfWork, asker: str, subject: str, answer: str) -> None:
    """Let an agent of an active crew continue its blocked tasks, with the answer to its mail as a comment on each.

    The answer is also mail to the agent, but another task's prompt may include that first.
    """
    epic = uow.agents.get(asker).current_epic
    for crew in [] if epic is None else uow.crews.list_of_epic(epic, _MAX_CREWS):
        if crew.state is not RunState.ACTIVE or not is_driven(uow, crew) or asker not in _list_workers(uow, crew.name):
            continue
        for task in list_tasks(uow, crew):
            if task.state is State.BLOCKED and task.assignee == asker:
                _continue_task(uow, crew, task, f"{subject}: {answer}")


def _continue_task(uow: UnitOfWork, crew: Crew, task: Task, comment: str) -> None:
    """Give a blocked task back to its worker."""
    uow.tasks.lock(task.number)
    claims.report_state(uow, task, State.IN_PROGRESS, fence=None, comment=comment)
    # The turn that blocked the task must not be judged, even if its driver was killed before recording that.
    run = f"{crew.name}.task-{task.number}"
    for last in uow.runs.list_iterations(run, 1):
        if last.failure is None:
            uow.runs.update_iteration(run, last.number, failure=f"task-{task.number} was blocked")


def _retry_failed_tasks(uow: UnitOfWork, crew: Crew) -> None:
    for task in list_tasks(uow, crew):
        if task.state is not State.FAILED:
            continue
        uow.tasks.lock(task.number)
        pending = uow.tasks.transition(
            task, State.PENDING, uow.now, assignee=None, attempts=0, fence=task.fence + 1, held_at=None
        )
        if uow.merges.find(task.number) is not None:
            uow.merges.update(task.number, uow.now, attempts=0)
        uow.tasks.add_comment(task.number, SYSTEM.name, "PENDING: a person asked for a retry", uow.now)
        tasks.emit_change(uow, pending)


def _list_workers(uow: UnitOfWork, name: str) -> set[str]:
    return {run.worker for run in uow.runs.list_of_crew(name, MAX_RUNS) if run.worker}


def is_driven(uow: UnitOfWork, crew: Crew) -> bool:
    """Report whether a live process drives the crew."""
    return crew.process is not None and processes.is_alive(uow, crew.process)


def lock_as_driver(uow: UnitOfWork, name: str, fence: int) -> Crew:
    """Lock the crew and return it, or reject a driver that has lost it."""
    crew = uow.crews.update(name, uow.now)
    check_crew_fence(crew, fence)
    return crew


def load_status(uow: UnitOfWork, name: str) -> CrewStatus:
    """Load the status that the driver of a crew reacts to at once."""
    crew = uow.crews.get(name)
    found, merges = list_tasks(uow, crew), uow.merges.list_open(name, MAX_CREW_TASKS)
    queued = {merge.task for merge in merges}
    counts: dict[str, int] = {}
    held: dict[str, list[int]] = {}
    for task in found:
        counts[task.state.value] = counts.get(task.state.value, 0) + 1
        waits = task.state is State.REVIEW and task.number not in queued
        begins = task.state is State.ASSIGNED and not task.open_blockers
        if task.assignee is not None and (waits or begins or task.state is State.IN_PROGRESS):
            held.setdefault(task.assignee, []).append(task.number)
    return CrewStatus(
        crew=crew,
        tasks=counts,
        ready=sum(task.state is State.PENDING and not task.open_blockers for task in found),
        held=held,
        finished=tuple(task.number for task in found if task.state in FINISHED),
        newest_change=max((task.updated_at for task in found), default=0),
        merges=tuple(merges),
        questions=tuple(question.mail for _, question in _find_open_questions(uow, found)),
    )


def list_open_questions(uow: UnitOfWork, crew: Crew) -> list[tuple[Mail, Question]]:
    """Return the questions to a person from holders of blocked tasks that can still be answered."""
    return _find_open_questions(uow, list_tasks(uow, crew))


def _find_open_questions(uow: UnitOfWork, of_crew: list[Task]) -> list[tuple[Mail, Question]]:
    askers = {task.assignee for task in of_crew if task.state is State.BLOCKED}
    found: list[tuple[Mail, Question]] = []
    for asker in filter(None, askers):
        sent = {mail.id: mail for mail in uow.mail.list_sent(agent_participant(asker), limit=_MAX_SENT)}
        asked = uow.mail.find_questions(list(sent))
        found += [(sent[number], question) for number, question in asked.items() if question.state(uow.now) == "OPEN"]
    return sorted(found, key=lambda each: each[0].id)


def list_asked_questions(uow: UnitOfWork, crew: Crew) -> list[AskedQuestion]:
    """Return the mails in which the crew's agents asked a person since it was created, oldest first."""
    found: list[AskedQuestion] = []
    for asker in sorted(_list_workers(uow, crew.name)):
        sent = {mail.id: mail for mail in uow.mail.list_sent(agent_participant(asker), limit=MAX_REQUESTS)}
        for number, question in uow.mail.find_questions(list(sent)).items():
            if sent[number].created_at >= crew.created_at:
                facts = {"answer": question.answer, "answered_by": question.answered_by}
                found.append(AskedQuestion(mail=number, agent=asker, subject=sent[number].subject, **facts))
    return sorted(found, key=lambda question: question.mail)[-MAX_REQUESTS:]


def list_tasks(uow: UnitOfWork, crew: Crew) -> list[Task]:
    """Return the tasks of the crew's epic."""
    return uow.tasks.list_page(limit=MAX_CREW_TASKS, board=str(crew.epic))


def list_merges(uow: UnitOfWork, crew: Crew) -> list[Merge]:
    """Return the merge queue of the crew, least recently changed first."""
    return uow.merges.list_of_crew(crew.name, MAX_CREW_TASKS)


def load_task(uow: UnitOfWork, number: int) -> CrewTask:
    """Load a task with its newest comments and its entry in the merge queue."""
    return CrewTask(
        task=uow.tasks.get(number),
        comments=tuple(uow.tasks.list_comments(number, MAX_COMMENTS)),
        merge=uow.merges.find(number),
    )


# The agents of a crew


def list_worker_names(uow: UnitOfWork, crew: Crew) -> list[str]:
    """Return the names of an active crew's workers, including those without a task."""
    names = []
    for number in range(1, crew.workers + 1) if crew.state is RunState.ACTIVE else ():
        with contextlib.suppress(AgentNotFound):
            names.append(uow.agents.get_active(f"{crew.name}-worker-{number}").name)
    return names


def sum_usage(uow: UnitOfWork, crew: Crew, of_crew: Iterable[Run]) -> dict[str, tuple[int, int]]:
    """Return the tokens and the cost of each agent of a crew. Several of them may have worked in one run."""
    names = {run.worker for run in of_crew if run.worker} | {*list_worker_names(uow, crew)}
    found = {name: usage.sum_usage(uow, UsageKind.AGENT, name) for name in names}
    return {name: (used.tokens, used.cost) for name, used in found.items()}


AGENT_TYPES = {Role.PLANNER: ORCHESTRATOR, Role.WORKER: WORKER, Role.REVIEWER: REVIEWER}
"""The type of the agents of each role, which decides what they may call."""


def ensure_agent(uow: UnitOfWork, crew: Crew, name: str, role: Role) -> Agent:
    """Return the agent of that name, creating it if needed, assigned to the crew's epic."""
    try:
        agent = uow.agents.get_active(name)
    except AgentNotFound:
        type = AGENT_TYPES[role]
        agents.create_agent(uow, name, type, (type,))
        agent = uow.agents.get(name)
    if agent.current_epic != crew.epic:
        epics.assign_epic(uow, crew.epic, name)
    return uow.agents.get(name)


def open_run(
    uow: UnitOfWork, crew: Crew, name: str, *, worker: str, task: int | None, project: str, spec: str, options: str
) -> Run:
    """Return the run in which an agent of the crew works, creating it if needed."""
    given = {"crew": crew.name, "worker": worker, "task": task}
    if uow.runs.add(name, spec=spec, project=project, options=options, now=uow.now, **given):  # type: ignore[arg-type]
        return uow.runs.get(name)
    # Another worker may continue what the first one started.
    return uow.runs.update(name, uow.now, worker=worker, spec=spec, project=project)


def return_task(
    uow: UnitOfWork, number: int, worker: str, reason: str, *, attempts: int, final: bool, hint: str
) -> Task:
    """Take a task from its worker: back to the queue, or FAILED if this is final or it was started too often.

    A person is alerted when a task fails, with the hint how to continue unless the reason has one.
    """
    uow.tasks.lock(number)
    task = uow.tasks.get(number)
    if task.assignee != worker or task.state not in claims.HELD_STATES:
        return task
    failed = final or task.attempts >= attempts
    if failed:
        body = reason if "Continue: " in reason else f"{reason}\n\n{hint}"
        alert(uow, f"task-{number} failed: {task.title}", body)
    return claims.return_task(uow, task, reason, by=uow.actor.key, failed=failed)


def record_crash(uow: UnitOfWork, worker: str) -> Agent:
    """Record a crash of an agent's process. Three within a minute pause the agent and alert a person."""
    return recovery.record_crash(uow, worker)


def touch_agents(uow: UnitOfWork, crew: Crew, names: list[str], spent: int, *, halted: bool) -> None:
    """Renew the leases of agents that have a task, and account for the crew's time.

    While `halted`, the time until the next account does not count.
    """
    for name in names:
        uow.agents.touch(name, uow.now)
    uow.crews.update(crew.name, uow.now, spent=crew.spent + spent, accounted_at=None if halted else uow.now)


def get_elapsed(uow: UnitOfWork, crew: Crew) -> int:
    """Return the microseconds that a crew has worked, including those since its last account."""
    if crew.accounted_at is None or not is_driven(uow, crew):
        return crew.spent
    return crew.spent + max(0, uow.now - crew.accounted_at)


def alert(uow: UnitOfWork, subject: str, body: str) -> None:
    """Mail the operator about something that needs a decision."""
    mail.send_system_mail(uow, [HUMAN], " ".join(subject.split())[:200], body, about=None, important=True)


# Steering


def steer_crew(uow: UnitOfWork, name: str, wanted: Wanted) -> Crew:
    """Pause, continue or stop a crew; reject this if no process drives the crew."""
    _check_driven(uow, uow.crews.get(name))
    crew = uow.crews.update(name, uow.now, wanted=wanted)
    for run in uow.runs.list_of_crew(name, MAX_RUNS):
        if run.state is RunState.ACTIVE:
            uow.runs.update(run.name, uow.now, wanted=wanted)
            uow.emit(RunSteered(run=run.name))
    uow.emit(CrewChanged(crew=name))
    return crew


def scale_crew(uow: UnitOfWork, name: str, workers: int) -> Crew:
    """Change the number of workers. A worker that is no longer wanted ends after its task."""
    crew = uow.crews.get(name)
    _check_active(crew)
    crew = uow.crews.update(name, uow.now, workers=workers)
    uow.emit(CrewChanged(crew=name))
    return crew


def _check_active(crew: Crew) -> None:
    if crew.state is not RunState.ACTIVE:
        rule = "crew_completed" if crew.state is RunState.COMPLETED else "crew_not_active"
        raise InvalidState(f"the crew '{crew.name}' is {crew.state.value}", rule=rule, crew=crew.name)


def _check_driven(uow: UnitOfWork, crew: Crew) -> None:
    _check_active(crew)
    if not is_driven(uow, crew):
        raise InvalidState(f"no process drives the crew '{crew.name}'", rule="crew_not_driven", crew=crew.name)


# The end


def finish_crew(uow: UnitOfWork, crew: Crew, state: RunState, reason: str, report: str) -> Crew:
    """End the crew: set the state of its epic and mail the report to the operator.

    The agents of a completed crew retire. Those of any other crew are needed when it is resumed.
    """
    finished = uow.crews.update(
        crew.name, uow.now, state=state, reason=reason, report=report, process=None, accounted_at=None, ended_at=uow.now
    )
    found = list_tasks(uow, crew)
    epic = uow.epics.get(crew.epic)
    if epic.is_open and found and all(task.state in FINISHED for task in found):
        failed = any(task.state is State.FAILED for task in found)
        epics.move_epic(uow, crew.epic, EpicState.BLOCKED if failed else EpicState.COMPLETED)
    if state is RunState.COMPLETED:
        for worker in _list_workers(uow, crew.name):
            if uow.agents.get(worker).retired_at is None:
                agents.retire_agent(uow, worker)
    subject = f"Crew {crew.name}: {state.value}"
    mail.send_system_mail(uow, [HUMAN], subject, report, about=None, important=state is not RunState.COMPLETED)
    uow.emit(CrewEnded(crew=crew.name, state=state.value))
    return finished
