"""Tools for the agents of a crew: their runs, their tasks, their leases and their crashes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.crews import CrewTask, Role
from shopfloor.domain.principals import Agent
from shopfloor.domain.runs import Run
from shopfloor.domain.tasks import Task
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolsets.crew.contract import AgentName, Fence, TaskNumber, get_retry_hint, lock_crew, toolset
from shopfloor.usecases import crews


@toolset.tool("agent_ensure")
def ensure_agent(
    uow: UnitOfWork,
    fence: Fence,
    name: AgentName,
    role: Annotated[Role, Field(description="What it does in the crew", strict=False)],
) -> Agent:
    """Return an agent of the crew, creating it if needed."""
    return crews.ensure_agent(uow, lock_crew(uow, fence), name, role)


@toolset.tool("agent_touch")
def touch_agents(
    uow: UnitOfWork,
    fence: Fence,
    names: Annotated[list[AgentName], Field(description="Agents that have a task")],
    spent: Annotated[int, Field(description="Microseconds since the last account", ge=0)],
    halted: Annotated[bool, Field(description="Whether the clock of the crew is halted from now on")],
) -> None:
    """Renew the leases of agents that have a task, and account for the crew's time."""
    crews.touch_agents(uow, lock_crew(uow, fence), names, spent, halted=halted)


@toolset.tool("agent_crashed")
def record_crash(uow: UnitOfWork, fence: Fence, name: AgentName) -> Agent:
    """Record that the process of an agent crashed."""
    lock_crew(uow, fence)
    return crews.record_crash(uow, name)


@toolset.tool("agent_open_run")
def open_run(
    uow: UnitOfWork,
    fence: Fence,
    run: Annotated[str, Field(description="Name of the run", min_length=1, max_length=64)],
    worker: AgentName,
    project: Annotated[str, Field(description="The folder that it works in")],
    spec: Annotated[str, Field(description="What it works on")],
    options: Annotated[str, Field(description="The options of the run, as JSON")],
    task: TaskNumber | None = None,
) -> Run:
    """Return the run in which an agent of the crew works, creating it if needed."""
    crew = lock_crew(uow, fence)
    return crews.open_run(uow, crew, run, worker=worker, task=task, project=project, spec=spec, options=options)


@toolset.tool("task_load", read_only=True)
def load_task(uow: UnitOfWork, task: TaskNumber) -> CrewTask:
    """Return a task with its comments and its entry in the merge queue."""
    return crews.load_task(uow, task)


@toolset.tool("task_return")
def return_task(
    uow: UnitOfWork,
    fence: Fence,
    task: TaskNumber,
    worker: AgentName,
    reason: Annotated[str, Field(description="What happened")],
    attempts: Annotated[int, Field(description="After how many attempts the task has failed", ge=1)],
    final: Annotated[bool, Field(description="Whether it has failed in any case")] = False,
) -> Task:
    """Take a task from its worker: back to the queue, or FAILED."""
    hint = get_retry_hint(lock_crew(uow, fence))
    return crews.return_task(uow, task, worker, reason, attempts=attempts, final=final, hint=hint)
