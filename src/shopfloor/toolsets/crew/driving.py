"""Tools to create, drive, watch and finish a crew."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.crews import AskedQuestion, Crew, CrewStatus, check_crew_fence
from shopfloor.domain.runs import RunState
from shopfloor.domain.times import SECOND
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json, Waiting
from shopfloor.toolsets.crew.contract import Fence, lock_crew, toolset
from shopfloor.usecases import crew_plans, crews

# Notifications between processes are only hints, so a wait reads the rows again this often.
RECHECK_INTERVAL = 5 * SECOND

Options = Annotated[str, Field(description="The options of the crew, as JSON")]
Workers = Annotated[int, Field(description="Number of workers", ge=0, le=64)]


@toolset.tool("crew_create", admin=True)
def create_crew(
    uow: UnitOfWork,
    title: Annotated[str, Field(description="Title of the epic that is planned", max_length=200)],
    spec: Annotated[str, Field(description="The specification; empty for an epic that exists")],
    project: Annotated[str, Field(description="The project folder")],
    base: Annotated[str, Field(description="The commit that the work begins at")],
    workers: Workers,
    options: Options,
    epic: Annotated[int | None, Field(description="Number of an epic that is already planned")] = None,
    name: Annotated[str | None, Field(description="The name, which must be free")] = None,
    wanted_name: Annotated[str, Field(description="Without a name: the beginning of a free one")] = "crew",
) -> Crew:
    """Create a crew. The only tool for the operator: there is no driver before there is a crew."""
    chosen = crews.find_free_name(uow, wanted_name) if name is None else name
    facts = {"title": title, "spec": spec, "project": project, "base": base, "options": options}
    branch = f"shopfloor-crew/{chosen}/epic"
    return crews.create_crew(uow, chosen, epic=epic, workers=workers, branch=branch, **facts)


@toolset.tool("crew_get", read_only=True)
def get_crew(uow: UnitOfWork) -> Crew:
    """Return the crew as stored."""
    return uow.crews.get(uow.actor.name)


@toolset.tool("crew_drive")
def drive_crew(
    uow: UnitOfWork,
    options: Options,
    workers: Workers | None = None,
    retry_failed: Annotated[bool, Field(description="Whether failed tasks are tried again")] = False,
) -> Crew:
    """Start driving the crew. Return the crew, with the fence of this driver."""
    return crews.drive_crew(uow, uow.actor.name, options, workers, retry_failed=retry_failed)


@toolset.tool("crew_status", read_only=True)
def load_status(uow: UnitOfWork) -> CrewStatus:
    """Return the status of the crew."""
    return crews.load_status(uow, uow.actor.name)


@toolset.tool("crew_wait", read_only=True)
def wait_for_change(
    uow: UnitOfWork,
    fence: Fence,
    version: Annotated[str, Field(description="The version of the status that the driver knows")],
    seconds: Annotated[float, Field(description="How long to wait", ge=0)],
    resumed: Waiting | None = None,
) -> CrewStatus | Waiting:
    """Return the status of the crew as soon as it differs from the known version, or at the deadline."""
    name = uow.actor.name
    check_crew_fence(uow.crews.get(name), fence)
    status = crews.load_status(uow, name)
    deadline = uow.now + int(seconds * SECOND) if resumed is None else resumed.state
    if status.version != version or uow.now >= deadline or (resumed is not None and resumed.until == 0):
        return status
    return Waiting("task", min(deadline, uow.now + RECHECK_INTERVAL), deadline)


@toolset.tool("crew_questions", read_only=True)
def list_questions(uow: UnitOfWork) -> list[AskedQuestion]:
    """Return the mails in which the crew's agents asked a person."""
    return crews.list_asked_questions(uow, uow.crews.get(uow.actor.name))


@toolset.tool("crew_board", read_only=True)
def load_board(uow: UnitOfWork) -> Json:
    """Return the crew, its epic and tasks, its merge queue, its runs, and the usage and questions of its agents."""
    crew = uow.crews.get(uow.actor.name)
    found, of_crew = crews.list_tasks(uow, crew), uow.runs.list_of_crew(crew.name, crews.MAX_RUNS)
    return {
        "crew": crew,
        "epic": uow.epics.get(crew.epic),
        "tasks": found,
        "blockers": uow.tasks.map_blockers([task.number for task in found]),
        "merges": crews.list_merges(uow, crew),
        "runs": of_crew,
        "usage": crews.sum_usage(uow, crew, of_crew),
        "requests": uow.run_requests.list_of_crew(crew.name, crews.MAX_REQUESTS),
    }


@toolset.tool("crew_planned")
def finish_planning(
    uow: UnitOfWork,
    fence: Fence,
    run: Annotated[str, Field(description="The run of the planner")],
    ask: Annotated[bool, Field(description="Whether a person has to approve the plan")],
) -> Crew:
    """Record that the plan is ready. The crew works on it, or waits for a person."""
    return crew_plans.finish_planning(uow, lock_crew(uow, fence), run, ask=ask)


@toolset.tool("crew_alert")
def alert(
    uow: UnitOfWork,
    fence: Fence,
    subject: Annotated[str, Field(description="Subject of the mail")],
    body: Annotated[str, Field(description="Text of the mail")],
) -> None:
    """Mail the operator about something that needs a decision."""
    lock_crew(uow, fence)
    crews.alert(uow, subject, body)


@toolset.tool("crew_finish")
def finish_crew(
    uow: UnitOfWork,
    fence: Fence,
    state: Annotated[RunState, Field(description="The last state", strict=False)],
    reason: Annotated[str, Field(description="Why it ended")],
    report: Annotated[str, Field(description="What was done by which agent, what failed and why")],
) -> None:
    """End the crew and mail its report to the operator."""
    crews.finish_crew(uow, lock_crew(uow, fence), state, reason, report)
