"""The work of a crew's agents: a task of an epic, the plan of an epic, the review of a task."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from shopfloor.domain.crews import OPEN_MERGES, CrewTask, MergeState, find_stuck_tasks
from shopfloor.domain.epics import Epic
from shopfloor.domain.runs import RunSnapshot, RunState
from shopfloor.domain.tasks import Comment
from shopfloor.domain.tasks import State as TaskState
from shopfloor.domain.times import format_iso
from shopfloor.errors import GitFailed
from shopfloor.runner import prompt, verification
from shopfloor.runner.context import AGENT_FAILED, NO_PROGRESS, Ending, RunContext, Wait
from shopfloor.runner.crew_store import CrewStore
from shopfloor.runner.moves import State
from shopfloor.runner.run_store import BegunIteration
from shopfloor.runner.worktrees import Worktrees

WORKER_TEMPLATE = Path(__file__).with_name("worker.md")
WORKER_VARIABLES = ("worker", "epic", "task", "title", "description", "branch", "acceptance", "comments", "extra")
PLANNER_TEMPLATE = Path(__file__).with_name("planner.md")
PLANNER_VARIABLES = ("worker", "epic_id", "spec", "tasks", "extra")
REVIEWER_TEMPLATE = Path(__file__).with_name("reviewer.md")
REVIEWER_VARIABLES = ("worker", "task", "title", "description", "comments", "diff", "extra")

MAX_PLANNED_TASKS = 200
"""A plan with more tasks is sent back, because no person can read it."""

_MAX_DIFF_CHARACTERS = 60_000
_MAX_COMMENT_CHARACTERS = 8_000
LOST = -1
"""The exit code of a run whose worker has lost the task. It is not an error: the worker takes another task."""


@dataclass
class _CrewWork:
    """The common part of all kinds of work in a crew."""

    store: CrewStore
    worktrees: Worktrees
    worker: str
    template: str
    admit: Callable[[int], Awaitable[Ending | None]]
    """Count the turn with this number toward the budgets of the crew and of the worker, or return the ending if none is
    left."""

    async def begin(self, context: RunContext) -> None:
        """Do nothing: the worktree was prepared before the states began."""

    async def list_commands(self, context: RunContext) -> list[Sequence[str]]:
        """Return the acceptance commands of the crew."""
        return list(context.options.verify)

    def needs_verification(self, context: RunContext, snapshot: RunSnapshot) -> bool:
        """Report whether the last turn ended on its own and is not judged yet, even by a killed driver."""
        last = snapshot.last_iteration
        if last is None or last.ended_at is None or context.verified_after == last.number:
            return False
        # Unread messages cause one more turn: the agent may have to do more before the work is done.
        if snapshot.has_unread and self.handles_messages:
            return False
        return last.outcome == "ended" and last.failure is None and last.ended_at > self.returned_at

    returned_at: int = 0
    """When the work was last sent back. Earlier turns are already judged."""

    handles_messages: ClassVar[bool] = True
    """Whether a message that arrived during the last turn causes one more."""

    async def find_obstacle(self, context: RunContext, snapshot: RunSnapshot) -> Wait | Ending | None:
        """Return the ending after a crash or without progress. The crew decides what happens to the task."""
        last = snapshot.last_iteration
        if context.failures or context.launches:
            failure = (last.failure if last is not None and context.failures else None) or context.launch_failure
            return Ending(RunState.FAILED, AGENT_FAILED, failure)
        limit, progress = context.options.no_progress, snapshot.progress
        context.prompt_changed = 0
        # Another attempt has at least one turn, even on a task that failed without progress before.
        if context.has_begun and progress.failed >= limit and progress.failed_despite_change:
            assert last is not None
            reason = f"the same failure occurred {progress.failed} times: {last.failure}"
            return Ending(RunState.STOPPED, NO_PROGRESS, reason)
        if context.has_begun and progress.stalled >= limit and progress.stalled_despite_change:
            reason = f"nothing has changed in {progress.stalled} turns"
            return Ending(RunState.STOPPED, NO_PROGRESS, reason)
        if max(progress.stalled, progress.failed) >= limit:
            context.prompt_changed = max(progress.stalled, progress.failed)
        if not context.has_begun and last is not None and last.failure is not None:
            context.prompt_extras = [f"An earlier attempt ended with: {last.failure}"]
        return await self.admit(snapshot.next_number)

    async def reject(self, context: RunContext, fault: str) -> State:
        """Say in the next prompt what is wrong."""
        context.view.show("not_verified", run=context.name, verdict=fault)
        context.prompt_extras.append(f"The work was checked and is not done yet: {fault}")
        await context.store.set_failure(context.run.iteration, f"not verified: {fault.splitlines()[0]}")
        return State.DECIDE


@dataclass
class TaskWork(_CrewWork):
    """Work on one task: acceptance, commit, and hand-over to the merge queue."""

    epic: Epic | None = None
    number: int = 0
    review: bool = False

    async def list_commands(self, context: RunContext) -> list[Sequence[str]]:
        """Return the acceptance command of the task and those of the crew."""
        return _list_commands(await self.store.load_task(self.number), context.options.verify)

    async def find_obstacle(self, context: RunContext, snapshot: RunSnapshot) -> Wait | Ending | None:
        """Return the ending if the worker has lost the task, after a crash, or without progress."""
        return self._check_held(await self.store.load_task(self.number)) or await super().find_obstacle(
            context, snapshot
        )

    def _check_held(self, found: CrewTask) -> Ending | None:
        task = found.task
        if task.assignee == self.worker and task.state is TaskState.IN_PROGRESS:
            return None
        # If an agent reports REVIEW itself, its work is still checked first.
        if task.assignee == self.worker and task.state is TaskState.REVIEW and not _is_queued(found):
            return None
        holder = f", assigned to {task.assignee}" if task.assignee not in (None, self.worker) else ""
        return Ending(RunState.STOPPED, LOST, f"task-{task.number} is {task.state}{holder}")

    async def write_prompt(self, context: RunContext, begun: BegunIteration, extras: Sequence[str]) -> str:
        """Fill in the template with the task, its comments and the results of earlier attempts."""
        found = await self.store.load_task(self.number)
        task, paragraphs = found.task, list(extras)
        if context.options.extra:
            paragraphs.insert(0, context.options.extra)
        if found.merge is not None and found.merge.state is MergeState.RETURNED and found.merge.output:
            paragraphs.append(f"Your work was handed over and came back: {found.merge.output}")
        folder = self.worktrees.task_folder(self.number)
        # Others' work is merged into the worktree only after a first handover.
        conflicts = [] if found.merge is None else await self.worktrees.list_conflicts(folder)
        if conflicts:
            paragraphs.append(
                "Work of others was merged into your worktree. Resolve the conflicts (between <<<<<<< and >>>>>>>) in: "
                + ", ".join(conflicts)
            )
        commands = _list_commands(found, context.options.verify)
        shown = " and ".join(f"`{' '.join(command)}`" for command in commands)
        values = {
            "worker": self.worker,
            "epic": "" if self.epic is None else self.epic.title,
            "task": f"task-{task.number}",
            "title": task.title,
            "description": task.description or "",
            "branch": self.worktrees.task_branch(self.number),
            "acceptance": f"The work is accepted when {shown} passes." if shown else "There is no acceptance command.",
            "comments": _format_comments(found.comments),
            "extra": "\n\n".join(paragraphs),
        }
        return prompt.fill_template(self.template, values)

    async def verify(self, context: RunContext) -> State:
        """Run the acceptance commands, commit the work, and hand it over to the merge queue."""
        context.verified_after = context.run.iteration
        found = await self.store.load_task(self.number)
        lost = self._check_held(found)
        if lost is not None:
            # A turn that blocked the task left nothing to judge: once the task continues, another turn comes first.
            await context.store.set_failure(context.run.iteration, lost.reason)
            context.set_ending(lost)
            return State.FINISH
        task, folder = found.task, self.worktrees.task_folder(self.number)
        fault = await _find_fault(context, _list_commands(found, context.options.verify))
        commit = ""
        # Messages that arrived while the commands ran cause one more turn, too.
        if fault is None and (await context.store.load_snapshot()).has_unread:
            return State.DECIDE
        if fault is None:
            try:
                message = f"task-{task.number}: {task.title}\n\n{self.worker} for {context.run.crew}\n"
                commit = await self.worktrees.commit_all(folder, message)
                await self.worktrees.publish_commit(self.worktrees.task_branch(self.number), commit)
            except GitFailed as failed:
                fault = f"the work cannot be committed: {failed.message}"
        if fault is not None:
            if task.state is TaskState.REVIEW:
                await self.store.report_task(self.worker, task, "IN_PROGRESS")
            return await self.reject(context, fault)
        branch = self.worktrees.task_branch(self.number)
        # The entry first: a kill between the two leaves the task with its worker, and it is verified again.
        await self.store.add_merge(task.number, branch, commit, review=self.review)
        if task.state is not TaskState.REVIEW:
            await self.store.report_task(
                self.worker, task, "REVIEW", branchName=branch, worktreePath=str(context.project)
            )
        # Shown now: the merge queue takes it immediately, while the run is still ending.
        context.view.show("task_handed_over", crew=context.run.crew, task=f"task-{task.number}")
        context.set_ending(Ending(RunState.COMPLETED, 0, f"handed over as {commit[:12]}"))
        return State.FINISH


@dataclass
class PlanWork(_CrewWork):
    """Plan an epic: the agent creates its tasks."""

    epic: Epic | None = None

    async def write_prompt(self, context: RunContext, begun: BegunIteration, extras: Sequence[str]) -> str:
        """Fill in the template with the specification and the tasks so far."""
        assert self.epic is not None
        tasks = [f"- task-{task.number} {task.title}" for task in (await self.store.load_board()).tasks]
        values = {
            "worker": self.worker,
            "epic_id": f"epic-{self.epic.id}",
            "spec": begun.run.spec,
            "tasks": "\n".join(tasks) or "There are none yet.",
            "extra": "\n\n".join([*filter(None, [context.options.extra]), *extras]),
        }
        return prompt.fill_template(self.template, values)

    async def verify(self, context: RunContext) -> State:
        """Accept a plan that has tasks, but not too many, and at least one that can begin."""
        context.verified_after = context.run.iteration
        board = await self.store.load_board()
        tasks = [task for task in board.tasks if task.state is not TaskState.CANCELLED]
        fault = None
        if not tasks:
            fault = f"epic-{board.crew.epic} has no tasks: create them with mcp__task__create and its epicId"
        elif len(tasks) > MAX_PLANNED_TASKS:
            fault = f"the plan has {len(tasks)} tasks; make at most {MAX_PLANNED_TASKS}"
        # Of all tasks: one that waits for a cancelled task would seem to wait for another epic.
        elif (stuck := find_stuck_tasks(board.tasks, board.blockers)) is not None:
            names = ", ".join(f"task-{task.number}" for task in stuck[:10])
            fault = f"no task can ever begin, because all of them wait for cancelled or blocked ones: {names}"
        if fault is not None:
            return await self.reject(context, fault)
        planned = "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"
        context.set_ending(Ending(RunState.COMPLETED, 0, f"planned {planned}"))
        return State.FINISH


@dataclass
class ReviewWork(_CrewWork):
    """Review a task: the agent approves the work or requests changes."""

    number: int = 0
    # After the verdict nothing is left to decide, and before it another turn is due anyway.
    handles_messages: ClassVar[bool] = False

    async def write_prompt(self, context: RunContext, begun: BegunIteration, extras: Sequence[str]) -> str:
        """Fill in the template with the task and the diff."""
        found = await self.store.load_task(self.number)
        assert found.merge is not None
        values = {
            "worker": self.worker,
            "task": f"task-{self.number}",
            "title": found.task.title,
            "description": found.task.description or "",
            "comments": _format_comments(found.comments),
            "diff": await self.worktrees.diff(found.merge.commit, _MAX_DIFF_CHARACTERS),
            "extra": "\n\n".join([*filter(None, [context.options.extra]), *extras]),
        }
        return prompt.fill_template(self.template, values)

    async def verify(self, context: RunContext) -> State:
        """Accept a turn in which the reviewer decided."""
        context.verified_after = context.run.iteration
        found = await self.store.load_task(self.number)
        if found.merge is not None and found.merge.state is MergeState.REVIEW:
            task = f"task-{self.number}"
            return await self.reject(context, f"you have not decided about {task}: approve it, or request changes")
        context.set_ending(Ending(RunState.COMPLETED, 0, f"reviewed task-{self.number}"))
        return State.FINISH


def _is_queued(found: CrewTask) -> bool:
    return found.merge is not None and found.merge.state in OPEN_MERGES


def _list_commands(found: CrewTask, verify: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return the commands that prove a task: its own, or otherwise the crew's."""
    return [json.loads(found.task.acceptance)] if found.task.acceptance else list(verify)


async def _find_fault(context: RunContext, commands: Sequence[Sequence[str]]) -> str | None:
    failing = await verification.find_failing_command(
        commands,
        context.project,
        context.options.verify_time,
        lambda result: context.view.show("verified", run=context.name, command=list(result.command), exit=result.code),
    )
    return None if failing is None else verification.explain_failure(failing)


def _format_comments(comments: Sequence[Comment]) -> str:
    """Format comments as quoted text, so that none can pose as another part of the prompt."""
    parts = []
    for comment in comments:
        quoted = [f"> {line}" for line in comment.body[:_MAX_COMMENT_CHARACTERS].splitlines()]
        parts.append("\n".join([f"{comment.author}, {format_iso(comment.created_at)}:", *quoted]))
    return "\n\n".join(parts) or "Nothing yet."
