"""Launches: start a run from the server, schedule it, retry it.

A launch is a row. The server claims a due launch in a transaction and starts the process afterwards. If it is killed in
between, the launch is not repeated: two runs in one folder are worse than none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shopfloor.domain.launches import Launch, LaunchState, find_next_due
from shopfloor.domain.runs import check_content, check_run_name
from shopfloor.domain.times import SECOND
from shopfloor.errors import InvalidInput, InvalidState
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import runs

MAX_DUE = 10
MAX_PROBLEM_CHARACTERS = 2000
START_TIMEOUT = 60 * SECOND
"""A launch that has been starting for longer belongs to a server that was killed."""


def start_run(
    uow: UnitOfWork,
    *,
    name: str,
    spec: str,
    agent: str | None,
    options: Mapping[str, Any],
    due_at: int | None = None,
    repeat: int | None = None,
) -> Launch:
    """Let the server start a run: at once, at a given time, or repeatedly from then on.

    The agent must be one that the server offers: a page must not choose an arbitrary command.
    """
    _require_launcher(uow)
    check_run_name(name)
    if agent is not None and agent not in uow.limits.run_agents:
        raise InvalidInput(
            f"Unknown agent command '{agent[:80]}'; expected one of {', '.join(uow.limits.run_agents)}",
            field="agent",
        )
    if agent is None and not uow.limits.has_default_run_agent:
        raise InvalidInput("No agent given, and the project's config names none", field="agent")
    given = {name: value for name, value in {"agent": agent, **options}.items() if value is not None}
    return _add(uow, name, check_content(spec, "a specification"), given, due_at, repeat)


def retry_run(uow: UnitOfWork, name: str) -> Launch:
    """Let the server continue a run that no process drives, with its previous options."""
    _require_launcher(uow)
    run = uow.runs.get(name)
    if runs.is_driven(uow, run):
        raise InvalidState(f"the run '{name}' is driven by a process", rule="run_driven", run=name)
    return _add(uow, name, None, {}, None, None)


def _require_launcher(uow: UnitOfWork) -> None:
    if not uow.limits.launches_runs:
        raise InvalidState("This server starts no runs: its setting launch_runs is off")


def _add(
    uow: UnitOfWork, name: str, spec: str | None, options: Mapping[str, Any], due_at: int | None, repeat: int | None
) -> Launch:
    return uow.launches.add(
        run=name,
        spec=spec,
        options=json.dumps(options),
        due_at=uow.now if due_at is None else due_at,
        repeat=repeat,
        by=uow.actor.key,
        now=uow.now,
    )


def cancel_launch(uow: UnitOfWork, id: int) -> Launch:
    """Cancel a launch that waits. A run that was started continues: stop the run itself."""
    launch = uow.launches.get(id)
    if launch.due_at is None:
        return launch
    return uow.launches.update(id, due_at=None, state=LaunchState.CANCELLED.value)


def claim_due(uow: UnitOfWork) -> list[Launch]:
    """Claim the due launches for this process to start. No other process gets them."""
    due = uow.launches.take_due(uow.now, MAX_DUE)
    return [
        uow.launches.update(
            launch.id,
            state=LaunchState.STARTING.value,
            due_at=None
            if launch.repeat is None or launch.due_at is None
            else find_next_due(launch.due_at, launch.repeat, uow.now),
            launched_at=uow.now,
            launches=launch.launches + 1,
            problem=None,
            pid=None,
            host=None,
        )
        for launch in due
    ]


def record_started(uow: UnitOfWork, id: int, pid: int, host: str) -> None:
    """Record which process drives the run."""
    uow.launches.update(id, state=LaunchState.STARTED.value, pid=pid, host=host)


def record_problem(uow: UnitOfWork, id: int, problem: str) -> None:
    """Record why the run did not start."""
    uow.launches.update(id, state=LaunchState.FAILED.value, problem=problem[-MAX_PROBLEM_CHARACTERS:])


def describe_state(uow: UnitOfWork, launch: Launch) -> LaunchState:
    """Return the state of a launch; if its server was killed while starting it, it has failed."""
    is_late = launch.launched_at is not None and uow.now - launch.launched_at > START_TIMEOUT
    return LaunchState.FAILED if launch.state is LaunchState.STARTING and is_late else launch.state
