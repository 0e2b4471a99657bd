"""Runs: how they are created, driven, steered and finished."""

from __future__ import annotations

import re

from shopfloor.domain.mail import HUMAN, run_participant
from shopfloor.domain.principals import Kind, Principal
from shopfloor.domain.run_events import CompletionJudged, CompletionRequested, RunEnded, RunStarted, RunSteered
from shopfloor.domain.runs import (
    Run,
    RunNotFound,
    RunSnapshot,
    RunState,
    RunStatus,
    Wanted,
    check_content,
    check_fence,
    check_run_name,
    format_status,
    format_task_id,
)
from shopfloor.domain.times import SECOND
from shopfloor.errors import InvalidInput, InvalidState, RunNotActive, RunNotDriven
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import credentials, iterations, mail, processes, run_requests, run_tasks

_MAX_REQUESTS = 50
_MAX_RUNS = 200
_DRIVERS = ("run", "crew")
"""The kinds of processes that drive agents."""
_START_TIMEOUT = 60 * SECOND
"""How long after its creation a run may wait for a process to drive it."""


def get_principal(uow: UnitOfWork, name: str | None) -> Principal:
    """Return the run of that name, or the latest one, as a principal."""
    run = uow.runs.get(name) if name is not None else uow.runs.find_latest()
    if run is None:
        raise RunNotFound("no run has been started yet", rule="no_run")
    return Principal(Kind.RUN, run.name)


def create_run(uow: UnitOfWork, name: str, *, spec: str, project: str, options: str) -> Run:
    """Create a run that no process drives yet."""
    if not uow.runs.add(check_run_name(name), spec=spec, project=project, options=options, now=uow.now):
        raise InvalidInput(f"the run '{name}' already exists", rule="run_exists", run=name)
    return uow.runs.get(name)


def find_free_name(uow: UnitOfWork, wanted: str) -> str:
    """Return the name, or the first of NAME-2, NAME-3, … that is free."""
    base = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).strip("-._")[:56] or "run"
    for name in [base, *(f"{base}-{number}" for number in range(2, 10_000))]:
        if uow.runs.find(name) is None:
            return name
    raise InvalidInput(f"there are too many runs named {base}", rule="too_many_runs")


def is_driven(uow: UnitOfWork, run: Run) -> bool:
    """Report whether a live process drives the run."""
    return run.process is not None and processes.is_alive(uow, run.process)


def list_neighbours(uow: UnitOfWork, project: str) -> list[str]:
    """Return the names of the runs that work in this folder: driven runs, and those created just now."""
    alive = {process.id for process in processes.list_alive(uow)}
    return [
        run.name
        for run in uow.runs.list_page(_MAX_RUNS)
        if run.state is RunState.ACTIVE
        and run.project == project
        and (run.process in alive or (run.fence == 0 and uow.now - run.created_at < _START_TIMEOUT))
    ]


def find_enclosing_driver(uow: UnitOfWork) -> str | None:
    """Return the run or crew whose driver is an ancestor of this process, as text for people, or None.

    A reaper adopts orphans of its command, so the processes of an agent stay below their driver.
    """
    above = {process for kind in _DRIVERS for process in processes.list_processes_above(uow, kind)}
    if not above:
        return None
    # A crew drives no run while it prepares a worktree or merges, but processes that it starts then are below its
    # driver too.
    run = next((run for run in uow.runs.list_page(_MAX_RUNS) if run.process in above), None)
    return "a crew" if run is None else f"the run '{run.name}'"


def has_drivers(uow: UnitOfWork) -> bool:
    """Return whether a process drives a run or a crew."""
    return any(process.kind in _DRIVERS for process in processes.list_alive(uow))


def is_driven_agent(uow: UnitOfWork, agent: str) -> bool:
    """Return whether a process drives this agent of a crew."""
    alive = {process.id for process in processes.list_alive(uow)}
    return any(run.worker == agent and run.process in alive for run in uow.runs.list_page(_MAX_RUNS))


def get_elapsed(uow: UnitOfWork, run: Run) -> int:
    """Return the microseconds that a driven run has taken, including the time since its last account."""
    # The driver accounts for time at the end of an iteration. Time before the driver started does not count.
    started = [process.started_at for process in uow.processes.list_all() if process.id == run.process]
    ended = [each.ended_at for each in uow.runs.list_iterations(run.name, 1) if each.ended_at]
    return run.spent + max(0, uow.now - max([*started, *ended], default=uow.now))


# Driving. One process at a time drives a run. Each driver has a fence, a number that grows with every driver; a driver
# that was suspended and replaced has an old one, and its writes are rejected.


def drive_run(uow: UnitOfWork, name: str, options: str, spec: str | None = None) -> tuple[Run, str]:
    """Make this process the driver of the run. Return the run, with its new fence, and a token for its agent.

    The tokens of earlier agents are revoked, and their permission requests withdrawn.
    """
    processes.reap_dead(uow)
    run = uow.runs.lock(name, uow.now)
    if is_driven(uow, run) and run.process != uow.process:
        raise InvalidState(f"the run '{name}' is driven by another process", rule="run_driven", run=name)
    # The previous driver's agent may still be alive. Its token ends here, and nothing waits for its questions.
    run_requests.withdraw_requests(uow, name)
    uow.tokens.revoke_all(Kind.RUN, name, uow.now)
    run = uow.runs.update(
        name,
        uow.now,
        state=RunState.ACTIVE,
        wanted=Wanted.GO,
        reason=None,
        ended_at=None,
        waiting=None,
        options=options,
        spec=run.spec if spec is None else spec,
        process=uow.process,
        fence=run.fence + 1,
    )
    uow.emit(RunStarted(run=name))
    return run, credentials.issue_for_run(uow, name)


def lock_as_driver(uow: UnitOfWork, name: str, fence: int) -> Run:
    """Lock the run and return it, or reject a driver that has lost it."""
    run = uow.runs.lock(name, uow.now)
    check_fence(run, fence)
    return run


def load_snapshot(uow: UnitOfWork, name: str) -> RunSnapshot:
    """Load everything that decides how a run continues."""
    run = uow.runs.get(name)
    return RunSnapshot(
        run=run,
        last_iteration=uow.runs.find_iteration(name, run.iteration),
        next_number=iterations.next_iteration_number(uow, run),
        progress=iterations.measure_progress(uow, name),
        tasks=tuple(run_tasks.iterate_tasks(uow, name)),
        questions=tuple(each for each in uow.run_requests.list_pending(_MAX_REQUESTS, name) if each.kind == "stuck"),
        has_unread=iterations.has_unread(uow, name),
    )


def load_status(uow: UnitOfWork, name: str) -> RunStatus:
    """Load the status that the driver of a run reacts to at once."""
    run = uow.runs.get(name)
    task = run_tasks.find_next_task(uow, name).in_progress
    return RunStatus(
        state=run.state,
        wanted=run.wanted,
        wish=run.wish,
        judged=run.judged,
        task="-" if task is None else f"{format_task_id(task.number)} {task.title}",
        requests=tuple(uow.run_requests.list_pending(_MAX_REQUESTS, name)),
        has_unread=iterations.has_unread(uow, name),
    )


def set_waiting(uow: UnitOfWork, name: str, waiting: str | None) -> None:
    """Record what the run waits for, or that it works again."""
    uow.runs.update(name, uow.now, waiting=waiting)
    uow.emit(RunSteered(run=name))


def set_verified_before(uow: UnitOfWork, name: str, *, passed: bool) -> None:
    """Record whether the acceptance commands passed before the first iteration."""
    uow.runs.update(name, uow.now, verified_before=int(passed))


def set_start_tree(uow: UnitOfWork, name: str, tree: str) -> None:
    """Record the files of the project before the first iteration, as a git tree."""
    uow.runs.update(name, uow.now, start_tree=tree)


def finish_run(uow: UnitOfWork, name: str, state: RunState, reason: str, *, alert: bool = False) -> Run:
    """End the run: revoke its agent's token and withdraw the questions that no longer matter.

    With `alert`, mail the reason to the operator: the run ended by itself and waits for a decision.
    """
    done = ("acceptance",) if state is RunState.COMPLETED else ()
    run_requests.withdraw_requests(uow, name, kinds=("permission", *run_requests.DECISIONS, *done))
    uow.tokens.revoke_all(Kind.RUN, name, uow.now)
    run = uow.runs.update(
        name, uow.now, state=state, reason=reason, process=None, ended_at=uow.now, wished_in=None, waiting=None
    )
    if alert:
        subject = f"Run {name} ended: {state.value}"
        mail.send_system_mail(uow, [HUMAN], subject, reason, about=run_participant(name), important=True)
    uow.emit(RunEnded(run=name, state=state.value))
    return run


# Completion: the agent requests it, the runner checks the work and records a verdict.


def request_completion(uow: UnitOfWork, run: str) -> Run:
    """Record that the agent declares the work complete; reject this while a task is open."""
    open = run_tasks.list_open_tasks(uow, run)
    if open:
        raise InvalidState(
            f"{format_task_id(open[0].number)} is {format_status(open[0].state)}",
            rule="open_tasks",
        )
    locked = uow.runs.lock(run, uow.now)
    changed = uow.runs.update(run, uow.now, wish=locked.wish + 1, wished_in=locked.iteration)
    uow.emit(CompletionRequested(run=run))
    return changed


def record_verdict(uow: UnitOfWork, run: str, wish: int, verdict: str | None) -> None:
    """Record the verdict on a request for completion: None accepts it, text rejects it and clears the request."""
    changes = {} if verdict is None else {"wished_in": None}
    uow.runs.update(run, uow.now, judged=wish, verdict=verdict, **changes)
    uow.emit(CompletionJudged(run=run))


# Steering


def steer_run(uow: UnitOfWork, name: str, wanted: Wanted) -> Run:
    """Pause, continue or stop a run; reject this if no process drives the run."""
    run = uow.runs.get(name)
    if run.state is not RunState.ACTIVE:
        raise RunNotActive(run=name, state=run.state.value)
    if not is_driven(uow, run):
        raise RunNotDriven(run=name)
    run = uow.runs.update(name, uow.now, wanted=wanted)
    uow.emit(RunSteered(run=name))
    return run


def send_message(uow: UnitOfWork, name: str, body: str) -> Run:
    """Send a message to a run. Its next prompt includes it."""
    run = uow.runs.get(name)
    uow.run_messages.add(name, uow.actor.key, check_content(body, "a message"), uow.now)
    uow.emit(RunSteered(run=name))
    return run
