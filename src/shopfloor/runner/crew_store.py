"""The store as the crew's driver uses it: through the `crew` toolset, and as an agent through the factory's tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from shopfloor.domain.crews import AskedQuestion, Crew, CrewStatus, CrewTask, Merge, Role
from shopfloor.domain.epics import Epic
from shopfloor.domain.principals import CREW_DRIVER, WORKER, Agent, Kind, Principal
from shopfloor.domain.runs import Request, Run, RunState
from shopfloor.domain.tasks import Task
from shopfloor.domain.text import make_storable
from shopfloor.runner.run_store import RETRY_PAUSE_SECONDS, WAIT_SECONDS, call_tool, convert
from shopfloor.serving import Shopfloor
from shopfloor.toolkit import Credential

OUTAGE_PAUSE_SECONDS = 15.0
"""Seconds between attempts during a long outage of the store."""


@dataclass(frozen=True, slots=True)
class Board:
    """A crew with the tasks of its epic, their blockers, its merge queue and its runs."""

    crew: Crew
    epic: Epic
    tasks: list[Task]
    blockers: dict[int, list[int]]
    merges: list[Merge]
    runs: list[Run]
    usage: dict[str, tuple[int, int]]
    """Tokens and cost by agent."""
    requests: list[Request]


class CrewStore:
    """One crew in the store, for its driver. Calls are made as the principal `runner:NAME`."""

    def __init__(self, shopfloor: Shopfloor, name: str) -> None:
        self._shopfloor = shopfloor
        self.name = name
        self.fence = 0

    async def drive(self, options: str, workers: int | None, *, retry_failed: bool) -> Crew:
        """Take the crew over as its driver; with `retry_failed`, return its failed tasks to the queue."""
        given = {"options": options, "workers": workers, "retry_failed": retry_failed}
        crew = convert(await self._call("crew_drive", given), Crew)
        self.fence = crew.fence
        return crew

    async def wait_for_change(self, version: str, seconds: float = WAIT_SECONDS) -> CrewStatus:
        """Return the status of the crew once it differs from the known version, or after `seconds`."""
        given = {"fence": self.fence, "version": version, "seconds": seconds}
        return convert(await self._call("crew_wait", given), CrewStatus)

    async def load_status(self) -> CrewStatus:
        """Load the current status of the crew."""
        return convert(await self._call("crew_status", {}), CrewStatus)

    async def load_board(self) -> Board:
        """Load the tasks, the merge queue and the runs of the crew."""
        return convert(await self._call("crew_board", {}), Board)

    async def list_questions(self) -> list[AskedQuestion]:
        """List the questions that the crew's agents have mailed to people."""
        return convert(await self._call("crew_questions", {}), list[AskedQuestion])

    async def load_task(self, task: int) -> CrewTask:
        """Load a task with its comments and its entry in the merge queue."""
        return convert(await self._call("task_load", {"task": task}), CrewTask)

    async def ensure_agent(self, name: str, role: Role = Role.WORKER) -> Agent:
        """Return an agent of the crew, creating it if it is missing."""
        return convert(await self._write("agent_ensure", name=name, role=role.value), Agent)

    async def touch_agents(self, names: list[str], spent: int, *, halted: bool) -> None:
        """Renew the leases of agents that have a task, and account for the time of the crew."""
        await self._write("agent_touch", names=names, spent=spent, halted=halted)

    async def record_crash(self, name: str) -> Agent:
        """Record that the process of an agent crashed."""
        return convert(await self._write("agent_crashed", name=name), Agent)

    async def open_run(
        self, run: str, *, worker: str, project: str, spec: str, options: str, task: int | None = None
    ) -> Run:
        """Return the run in which an agent of the crew works, creating it if it is missing."""
        facts = {"worker": worker, "project": project, "spec": spec, "options": options, "task": task}
        return convert(await self._write("agent_open_run", run=run, **facts), Run)

    async def claim_task(self, worker: str) -> int | None:
        """Claim the next ready task as the worker, and return its number, or None."""
        response = await self._call_as(worker, "mcp__task__claim", {})
        task = response["data"]["task"]
        return None if task is None else int(task["id"].removeprefix("task-"))

    async def report_task(self, worker: str, task: Task, state: str, **facts: Any) -> None:
        """Move a task as its worker."""
        given = {"taskId": f"task-{task.number}", "state": state, "fence": task.fence, **facts}
        await self._call_as(worker, "mcp__task__update_status", given)

    async def return_task(self, task: int, worker: str, reason: str, attempts: int, *, final: bool = False) -> Task:
        """Take a task from its worker: return it to the queue, or fail it."""
        facts = {"reason": reason, "attempts": attempts, "final": final}
        return convert(await self._write("task_return", task=task, worker=worker, **facts), Task)

    async def add_merge(self, task: int, branch: str, commit: str, *, review: bool) -> Merge:
        """Add the branch of a task to the merge queue."""
        return convert(await self._write("merge_add", task=task, branch=branch, commit=commit, review=review), Merge)

    async def record_verified(self, task: int, commit: str) -> None:
        """Record the verified commit, before the branch of the crew moves to it."""
        await self._write("merge_verified", task=task, commit=commit)

    async def requeue_merge(self, task: int) -> None:
        """Return an entry to the queue."""
        await self._write("merge_requeue", task=task)

    async def record_merged(self, task: int, commit: str) -> None:
        """Record that the crew's branch contains the work, and complete the task."""
        await self._write("merge_done", task=task, commit=commit)

    async def return_merge(self, task: int, output: str, attempts: int, *, conflict: bool) -> None:
        """Return work to its worker with the output."""
        await self._write("merge_return", task=task, output=output, attempts=attempts, conflict=conflict)

    async def finish_planning(self, run: str, *, ask: bool) -> Crew:
        """Record that planning is complete."""
        return convert(await self._write("crew_planned", run=run, ask=ask), Crew)

    async def alert(self, subject: str, body: str) -> None:
        """Mail the operator."""
        await self._write("crew_alert", subject=subject, body=body)

    async def finish(self, state: RunState, reason: str, report: str) -> None:
        """End the crew and mail its report."""
        await self._write("crew_finish", state=state.value, reason=reason, report=report)

    async def _write(self, tool: str, **arguments: Any) -> Any:
        return await self._call(tool, {"fence": self.fence, **make_storable(arguments)}, uuid4().hex)

    async def _call(self, tool: str, arguments: Mapping[str, Any], key: str | None = None) -> Any:
        caller = Principal(Kind.RUNNER, self.name, CREW_DRIVER)
        return (await call_tool(self._shopfloor, "crew", tool, arguments, caller, key, iterate_pauses())).body

    async def _call_as(self, worker: str, tool: str, arguments: Mapping[str, Any]) -> Any:
        caller = Principal(Kind.AGENT, worker, WORKER)
        key = uuid4().hex
        given = make_storable(arguments)
        return (await call_tool(self._shopfloor, "factory", tool, given, caller, key, iterate_pauses())).body


def iterate_pauses() -> Iterator[float]:
    """Yield the pauses between attempts, endlessly: a crew at night survives a restart of its database."""
    yield from RETRY_PAUSE_SECONDS
    while True:
        yield OUTAGE_PAUSE_SECONDS


def create_crew(shopfloor: Shopfloor, **facts: Any) -> Crew:
    """Create a crew as the operator."""
    result = shopfloor.answer("crew", "crew_create", facts, transport="cli")
    if result.error is not None:
        raise result.error
    return convert(result.body, Crew)


def get_crew(shopfloor: Shopfloor, name: str) -> Crew:
    """Return the crew of that name, or raise CrewNotFound."""
    request = shopfloor.engine.new_request(
        "crew", "crew_get", {}, Credential(trusted=Principal(Kind.RUNNER, name, CREW_DRIVER)), "cli", None
    )
    result = shopfloor.engine.call(request)
    if result.error is not None:
        raise result.error
    return convert(result.body, Crew)
