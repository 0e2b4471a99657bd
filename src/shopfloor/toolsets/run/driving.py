"""Tools to create, drive, watch and finish a run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.runs import Run, RunSnapshot, RunState, RunStatus, check_fence, run_topic
from shopfloor.domain.times import SECOND
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json, Waiting
from shopfloor.toolsets.run.contract import Fence, lock_run, toolset
from shopfloor.usecases import runs

# Notifications between processes are only hints, so a wait reads the rows again this often.
RECHECK_INTERVAL = 5 * SECOND

Options = Annotated[str, Field(description="The options of the run, as JSON")]


@toolset.tool("run_create", admin=True)
def create_run(
    uow: UnitOfWork,
    spec: Annotated[str, Field(description="The specification")],
    project: Annotated[str, Field(description="The project folder")],
    options: Options,
    name: Annotated[str | None, Field(description="The name, which must be free")] = None,
    wanted_name: Annotated[str, Field(description="Without a name: the beginning of a free one")] = "run",
    worktrees: Annotated[
        list[str] | None,
        Field(description="The folder of worktrees, and the path of the project in each", min_length=2, max_length=2),
    ] = None,
    always_worktree: Annotated[bool, Field(description="Use a worktree even if no other run is active")] = False,
) -> Json:
    """Create a run. The only tool for the operator: there is no driver before there is a run.

    If another run works in the project, the new one gets a folder below `worktrees`, if given.
    """
    chosen = runs.find_free_name(uow, wanted_name) if name is None else name
    if worktrees is not None and (always_worktree or runs.list_neighbours(uow, project)):
        folder, prefix = worktrees
        project = f"{folder}/{chosen}/{prefix}".rstrip("/")
    run = runs.create_run(uow, chosen, spec=spec, project=project, options=options)
    return {"name": run.name, "project": run.project}


@toolset.tool("run_neighbours", read_only=True)
def list_neighbours(uow: UnitOfWork) -> list[str]:
    """Return the names of other runs that work in the same folder."""
    run = uow.runs.get(uow.actor.name)
    return [name for name in runs.list_neighbours(uow, run.project) if name != run.name]


@toolset.tool("run_get", read_only=True)
def get_run(uow: UnitOfWork) -> Run:
    """Return the run as stored."""
    return uow.runs.get(uow.actor.name)


# secret: the response has a token, which must not be in the log.
@toolset.tool("run_drive", secret=True)
def drive_run(
    uow: UnitOfWork,
    options: Options,
    spec: Annotated[str | None, Field(description="A new specification")] = None,
) -> Json:
    """Start driving the run. Return the run, with the fence of this driver, and a token for its agent."""
    run, token = runs.drive_run(uow, uow.actor.name, options, spec)
    return {"run": run, "token": token}


@toolset.tool("run_wait", read_only=True)
def wait_for_change(
    uow: UnitOfWork,
    fence: Fence,
    version: Annotated[str, Field(description="The version of the status that the driver knows")],
    seconds: Annotated[float, Field(description="How long to wait", ge=0)],
    resumed: Waiting | None = None,
) -> RunStatus | Waiting:
    """Return the status of the run as soon as it differs from the known version, or at the deadline."""
    name = uow.actor.name
    # A driver that was suspended and replaced must not continue: its fence is older than the new driver's.
    check_fence(uow.runs.get(name), fence)
    status = runs.load_status(uow, name)
    deadline = uow.now + int(seconds * SECOND) if resumed is None else resumed.state
    if status.version != version or uow.now >= deadline or (resumed is not None and resumed.until == 0):
        return status
    return Waiting(run_topic(name), min(deadline, uow.now + RECHECK_INTERVAL), deadline)


@toolset.tool("run_snapshot", read_only=True)
def load_snapshot(uow: UnitOfWork) -> RunSnapshot:
    """Return everything that decides how the run continues."""
    return runs.load_snapshot(uow, uow.actor.name)


@toolset.tool("run_verdict")
def record_verdict(
    uow: UnitOfWork,
    fence: Fence,
    wish: Annotated[int, Field(description="The request for completion that was checked", ge=0)],
    verdict: Annotated[str | None, Field(description="What is wrong with the work; omitted when it is done")] = None,
) -> None:
    """Record the verdict on the work."""
    lock_run(uow, fence)
    runs.record_verdict(uow, uow.actor.name, wish, verdict)


@toolset.tool("run_finish")
def finish_run(
    uow: UnitOfWork,
    fence: Fence,
    state: Annotated[RunState, Field(description="The last state", strict=False)],
    reason: Annotated[str, Field(description="Why it ended")],
    alert: Annotated[bool, Field(description="Whether to mail the reason to the operator")] = False,
) -> None:
    """End the run."""
    lock_run(uow, fence)
    runs.finish_run(uow, uow.actor.name, state, reason, alert=alert)


@toolset.tool("run_waiting")
def set_waiting(
    uow: UnitOfWork,
    fence: Fence,
    waiting: Annotated[str | None, Field(description="What it waits for; omitted when it works again")] = None,
) -> None:
    """Record what the run waits for, or that it works again."""
    lock_run(uow, fence)
    runs.set_waiting(uow, uow.actor.name, waiting)


@toolset.tool("run_start_tree")
def set_start_tree(
    uow: UnitOfWork, fence: Fence, tree: Annotated[str, Field(description="The files of the project, as a tree of git")]
) -> None:
    """Record the files of the project before the first iteration."""
    lock_run(uow, fence)
    runs.set_start_tree(uow, uow.actor.name, tree)


@toolset.tool("run_verified_before")
def set_verified_before(
    uow: UnitOfWork,
    fence: Fence,
    passed: Annotated[bool, Field(description="Whether the acceptance commands passed before the first iteration")],
) -> None:
    """Record the result of the acceptance commands before the first iteration."""
    lock_run(uow, fence)
    runs.set_verified_before(uow, uow.actor.name, passed=passed)
