"""Drive a crew: one process, several agents, deterministic supervision.

Whenever something changes, the main loop compares what should run with what does: the planner, the workers, the
reviewer and the merge queue are tasks of one event loop. Each agent goes through the states of `states.py` with its own
kind of work. No model decides anything, and nothing is polled: idle workers wait for an event.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from shopfloor.domain.crews import CrewStatus, CrewTask, Merge, MergeState, Phase, Role, find_stuck_tasks
from shopfloor.domain.epics import Epic
from shopfloor.domain.principals import Agent, Kind, Principal
from shopfloor.domain.runs import RunState, Wanted
from shopfloor.domain.tasks import FINISHED
from shopfloor.domain.tasks import State as TaskState
from shopfloor.domain.times import SECOND
from shopfloor.errors import MergeConflict, ShopfloorError
from shopfloor.runner import crew_report, permissions, prompt, task_work
from shopfloor.runner.acp import McpServerRef
from shopfloor.runner.budgets import Stopwatch
from shopfloor.runner.context import (
    AGENT_FAILED,
    BUDGET_EXHAUSTED,
    NO_PROGRESS,
    NO_TASKS,
    STOPPED_BY_PERSON,
    TASKS_BLOCKED,
    Ending,
    RunContext,
    cancel_task,
)
from shopfloor.runner.crew_budgets import CrewBudgets
from shopfloor.runner.crew_merger import CrewMerger
from shopfloor.runner.crew_options import CrewOptions
from shopfloor.runner.crew_store import Board, CrewStore
from shopfloor.runner.main import drive_agent
from shopfloor.runner.options import Command, RunOptions
from shopfloor.runner.rate_limits import RateLimitPool
from shopfloor.runner.run_store import RunStore
from shopfloor.runner.task_work import LOST, PlanWork, ReviewWork, TaskWork
from shopfloor.runner.view import View
from shopfloor.runner.work import Work
from shopfloor.runner.worktrees import Worktrees, has_changes
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings

TOOLSETS = ("factory", "context")
"""Toolsets for the agents of a crew: mail, tasks and decisions; search and files of their worktree."""

LEASE_INTERVAL_SECONDS = 30.0
"""Seconds between renewals of busy workers' leases; a lease lasts for minutes."""
BUDGET_INTERVAL_SECONDS = 2.0
"""Seconds between budget checks while an agent works, if the crew has budgets."""

_BACKOFF_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 60.0

_log = logging.getLogger("shopfloor.crew")


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A view that adds the agent's name to each event."""

    view: View
    worker: str

    def show(self, event: str, **facts: Any) -> None:
        self.view.show(event, worker=self.worker, **facts)


class CrewDriver:
    """The driver of one crew."""

    def __init__(
        self,
        settings: Settings,
        options: CrewOptions,
        store: CrewStore,
        worktrees: Worktrees,
        status: CrewStatus,
        view: View,
    ) -> None:
        self._settings = settings
        self._options = options
        self._store = store
        self._worktrees = worktrees
        self._status = status
        self._view = view
        self._ending: Ending | None = None
        self._changed = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._contexts: dict[str, RunContext] = {}
        self._undecided: set[tuple[int, str]] = set()
        """Tasks that the reviewer left undecided. They wait for a person."""
        self._clock = Stopwatch()
        self._budgets = CrewBudgets(store.name, options, self._contexts, self._clock)
        self._admission = asyncio.Lock()
        self._is_exhausted = False
        """Whether the crew's budget leaves no further turn. The crew ends once the turns in progress have ended."""
        self._merger = CrewMerger(store, options, worktrees, view)
        self._paused: set[str] = set()
        """Workers that crashed too often and now pause."""
        self._internal_errors: dict[str, int] = {}
        """Number of consecutive internal errors of each part of the crew."""
        self._awaited: tuple[tuple[int, ...], float] = (), 0.0
        """The questions that the crew awaits answers to, and the deadline."""
        self._rate_limits: defaultdict[tuple[Command | None, str | None], RateLimitPool] = defaultdict(RateLimitPool)
        """The rate limit of each agent and model, shared by all workers of that kind."""
        self._always_allowed: set[str] = set()
        """Subjects of permission requests answered with `always` for one agent, and thereby for the whole crew."""
        self._epic: Epic | None = None
        """The epic, once loaded. Its title is part of every prompt, and a board of 100 tasks is long."""
        self._finished_reads = 0

    @property
    def name(self) -> str:
        return self._store.name

    # The main loop

    async def run(self) -> Ending:
        """Drive the crew to its end, and return its ending."""
        if self._status.crew.phase is Phase.APPROVAL:
            self._show_plan_question()
        for request in (await self._store.load_board()).requests:
            if request.answer == permissions.ALWAYS and request.about is not None:
                self._always_allowed.add(request.about)
        helpers = [asyncio.create_task(self._follow()), asyncio.create_task(self._renew_leases())]
        try:
            while self._ending is None:
                # Taken before reading: a change meanwhile sets this event, so the wait returns immediately.
                changed = self._changed
                self._reconcile()
                await self._adopt_foreign_work()
                self._set_ending(await self._find_ending())
                if self._ending is None:
                    await _wait_first(changed.wait(), *helpers)
                for helper in helpers:
                    # Raises if another driver has taken the crew over.
                    if helper.done():
                        helper.result()
        finally:
            # Without an ending, another driver has taken the crew over.
            self._set_ending(Ending(RunState.STOPPED, STOPPED_BY_PERSON, "another process drives the crew"))
            await self._end_parts(helpers)
        assert self._ending is not None
        return self._ending

    async def _end_parts(self, helpers: Sequence[asyncio.Task[None]]) -> None:
        """End the agents, with their grace period, and everything else."""
        assert self._ending is not None
        for context in self._contexts.values():
            context.stop(self._ending.code, "the crew ends")
        busy = [task for name, task in self._tasks.items() if name in self._contexts]
        if busy:
            await asyncio.wait(busy)
        left = {*self._tasks.values(), *helpers}
        for task in left:
            task.cancel()
        # A call that ends at the same moment swallows the cancellation. Each part then sees the ending.
        while left:
            self._notify()
            _, left = await asyncio.wait(left, timeout=_BACKOFF_SECONDS)
        for task in [*self._tasks.values(), *helpers]:
            with contextlib.suppress(asyncio.CancelledError, ShopfloorError):
                task.result()

    def stop(self, code: int, why: str) -> None:
        """End the crew as soon as possible. The first reason counts."""
        hint = f"{why}. Continue: shopfloor crew resume {self.name}"
        self._set_ending(Ending(RunState.STOPPED, code, hint))
        for context in self._contexts.values():
            context.stop(code, why)
        self._notify()

    def end_agents_now(self) -> None:
        """End the agents immediately, without the grace period of a shutdown."""
        for context in self._contexts.values():
            if context.agent is not None:
                context.agent.child.release()

    def _is_ending(self) -> bool:
        """Report whether the agents begin no further turn, because the crew is ending or its budget is exhausted."""
        return self._ending is not None or self._is_exhausted

    def _set_ending(self, ending: Ending | None) -> None:
        self._ending = self._ending or ending

    def _notify(self) -> None:
        """Wake everything that waits for a change."""
        # A new event instead of `clear`: a task that holds this event but does not wait yet must not miss the change.
        self._changed.set()
        self._changed = asyncio.Event()

    async def _follow(self) -> None:
        """Follow the crew in the store: its tasks, its merge queue, and people's requests."""
        while self._ending is None:
            if self._status.crew.wanted is Wanted.STOP:
                self.stop(STOPPED_BY_PERSON, "a person stopped it")
            self._notify()
            await self._read_status(functools.partial(self._store.wait_for_change, self._status.version))

    async def _refresh(self) -> None:
        """Read the status again after our own changes."""
        await self._read_status(self._store.load_status)
        self._notify()

    async def _read_status(self, read: Callable[[], Awaitable[CrewStatus]]) -> None:
        finished = self._finished_reads
        status = await read()
        # If another read has finished meanwhile, either of the two may hold the older status. Keeping the older would
        # make the crew wait for a change that has already happened.
        while finished != self._finished_reads:
            finished = self._finished_reads
            status = await self._store.load_status()
        self._finished_reads += 1
        self._status = status

    def _reconcile(self) -> None:
        """Start everything that should run but does not. Parts that should not run end on their own, or lose their
        task."""
        self._stop_lost_turns()
        match self._status.crew.phase:
            case Phase.PLAN:
                self._ensure_task(f"{self.name}-planner", self._plan)
            case Phase.WORK:
                for number in range(1, self._status.crew.workers + 1):
                    if self._worker_name(number) not in self._budgets.leaving:
                        self._ensure_task(self._worker_name(number), functools.partial(self._work, number))
                self._ensure_task("merge queue", self._merge)
                if self._options.reviewer is not None:
                    self._ensure_task(f"{self.name}-reviewer", self._review)

    def _stop_lost_turns(self) -> None:
        """Stop agents in the middle of a turn if their task is finished or now held by another agent."""
        holders = {number: holder for holder, numbers in self._status.held.items() for number in numbers}
        for worker, context in self._contexts.items():
            task = context.run.task
            if task is None or not context.is_in_turn or not isinstance(context.work, TaskWork):
                continue
            if task in self._status.finished:
                context.stop(LOST, f"task-{task} is finished")
            elif holders.get(task, worker) != worker:
                context.stop(LOST, f"task-{task} is assigned to {holders[task]}")

    def _ensure_task(self, name: str, start: Callable[[], Awaitable[None]]) -> None:
        task = self._tasks.get(name)
        if task is None or task.done():
            self._tasks[name] = asyncio.create_task(self._guard(name, start))

    async def _guard(self, name: str, start: Callable[[], Awaitable[None]]) -> None:
        """Run one part of the crew; after an internal error, wait and let the main loop restart it."""
        try:
            await start()
            self._internal_errors.pop(name, None)
        except ShopfloorError as error:
            times = self._internal_errors[name] = self._internal_errors.get(name, 0) + 1
            self._view.show("trouble", part=name, why=error.message)
            _log.exception("%s failed", name)
            await asyncio.sleep(min(_BACKOFF_SECONDS * 2**times, _MAX_BACKOFF_SECONDS))
        self._notify()

    def _worker_name(self, number: int) -> str:
        return f"{self.name}-worker-{number}"

    async def _find_ending(self) -> Ending | None:
        """Return the ending if nothing is left to do, a budget is exhausted, or every worker keeps failing."""
        status = self._status
        if status.crew.phase is not Phase.WORK or self._ending is not None:
            return self._ending
        open = [merge for merge in status.merges if merge.state in (MergeState.QUEUED, MergeState.VERIFIED)]
        if self._contexts or (open and status.tasks.get("REVIEW")):
            return await self._find_exhausted_budget()
        board = await self._store.load_board()
        if not board.tasks:
            return Ending(RunState.EMPTY, NO_TASKS, f"epic-{board.crew.epic} has no tasks")
        if all(task.state in FINISHED for task in board.tasks):
            return self._new_last_ending(board)
        stuck = find_stuck_tasks(board.tasks, board.blockers)
        if stuck is not None and not self._is_waiting_for_answer():
            names = ", ".join(f"task-{task.number}" for task in stuck[:10])
            hint = f"no task is ready; blocked: {names}. Continue: shopfloor crew resume {self.name}"
            return Ending(RunState.BLOCKED, TASKS_BLOCKED, hint)
        if exhausted := await self._find_exhausted_budget(count_iterations=True):
            return exhausted
        workers = {self._worker_name(number) for number in range(1, status.crew.workers + 1)}
        if workers and workers <= set(self._budgets.leaving):
            return Ending(RunState.STOPPED, BUDGET_EXHAUSTED, self._budgets.describe_leaving())
        return None

    def _is_waiting_for_answer(self) -> bool:
        """Report whether a person was asked and still has time to answer. The clock of an idle crew is paused."""
        questions, seconds = self._status.questions, self._options.get_worker(1).question_time
        if not questions:
            return False
        known, deadline = self._awaited
        if known != questions:
            deadline = time.monotonic() + seconds
            self._awaited = questions, deadline
            asyncio.get_running_loop().call_later(seconds, self._notify)
            until = datetime.now(UTC) + timedelta(seconds=seconds)
            why = f"an answer to {', '.join(f'mail-{number}' for number in questions)}"
            self._view.show("waiting", crew=self.name, why=why, until=until.isoformat(timespec="seconds"))
        return time.monotonic() < deadline

    def _new_last_ending(self, board: Board) -> Ending:
        failed = [f"task-{task.number}" for task in board.tasks if task.state is TaskState.FAILED]
        done = sum(task.state is TaskState.COMPLETED for task in board.tasks)
        if failed:
            # A task with an exhausted budget fails again at once, unless the command raises the budget.
            reasons = [run.reason or "" for run in board.runs if f"task-{run.task}" in failed]
            commands = [how for reason in reasons if (how := reason.partition(". Continue: ")[2])]
            hint = next(iter(commands), f"shopfloor crew resume {self.name} --retry-failed")
            reason = f"{done} of {len(board.tasks)} tasks are merged; failed: {', '.join(failed)}. Continue: {hint}"
            return Ending(RunState.FAILED, NO_PROGRESS, reason)
        how = "verified and merged" if self._options.verify else "merged"
        reason = f"{'1 task is' if done == 1 else f'{done} tasks are'} {how} into {board.crew.branch}"
        if unchanged := crew_report.list_unchanged(board):
            reason = f"{reason}, {len(unchanged)} of them without changes"
        if not self._options.verify:
            reason = f"{reason}; no --verify command was set"
        return Ending(RunState.COMPLETED, 0, reason)

    # Budgets and leases

    async def _find_exhausted_budget(
        self, asking: str | None = None, *, count_iterations: bool = False
    ) -> Ending | None:
        """Return the ending if a budget of the crew is exhausted. Dismiss workers whose own budget is exhausted.

        `asking` is an agent that is about to begin a turn.
        """
        if not self._budgets.are_set:
            return None
        board = await self._store.load_board()
        for worker, exhausted in self._budgets.dismiss_workers(board, asking).items():
            self._view.show("worker_dismissed", crew=self.name, worker=worker, why=exhausted.reason)
            self._notify()
            context = self._contexts.get(worker)
            # After its turn, its work is verified and handed over, which costs nothing more.
            if context is not None and context.is_in_turn:
                context.stop(BUDGET_EXHAUSTED, f"{worker}: {exhausted.reason}")
        return self._budgets.find_exhausted(board, count_iterations=count_iterations)

    async def _admit_turn(self, worker: str, run: str, number: int) -> Ending | None:
        """Count the turn that an agent is about to begin, or return the ending if no budget is left for it."""
        # One at a time: two agents that begin simultaneously must not both take the last iteration.
        async with self._admission:
            if self._budgets.is_admitted(run, number):
                return None
            ending = await self._find_exhausted_budget(worker, count_iterations=True)
            if ending is not None:
                self._is_exhausted = True
                self._notify()
            elif worker in self._budgets.leaving:
                ending = Ending(RunState.STOPPED, BUDGET_EXHAUSTED, f"the budget of {worker} is used up")
            else:
                self._budgets.admit(run, number)
            return ending

    async def _renew_leases(self) -> None:
        """Renew the leases of busy workers and check the budgets. An idle crew waits for a change."""
        touched, was_halted = None, True
        while self._ending is None:
            # Entering the stopwatch pauses it: the time of an idle crew does not count.
            if not self._contexts:
                with self._clock:
                    if touched is not None:
                        touched = None
                        await self._account(halted=True)
                    await self._changed.wait()
                continue
            # Nor does time in which all agents are paused, or wait for a person or a rate limit.
            is_halted = all(context.clock.is_halted for context in self._contexts.values())
            if touched is None or is_halted != was_halted or time.monotonic() - touched >= LEASE_INTERVAL_SECONDS:
                touched, was_halted = time.monotonic(), is_halted
                await self._account(halted=is_halted)
            if ending := await self._find_exhausted_budget():
                self._set_ending(ending)
                self.stop(ending.code, ending.reason)
            with self._clock if is_halted else contextlib.nullcontext():
                await asyncio.sleep(BUDGET_INTERVAL_SECONDS)

    async def _account(self, *, halted: bool) -> None:
        """Renew the leases of busy agents, and add the time since the last call to the crew's total."""
        await self._store.touch_agents(list(self._contexts), int(self._clock.restart() * SECOND), halted=halted)

    # Agents

    async def _drive_agent(
        self,
        run: str,
        agent: Agent,
        folder: Path,
        options: RunOptions,
        work: Work,
        *,
        spec: str,
        task: int | None = None,
    ) -> Ending:
        """Drive one agent in a worktree, with its own server for this agent and this worktree only."""
        worker = agent.name
        project = self._worktrees.project_of(folder)
        facts = {"project": str(project), "spec": spec, "options": options.model_dump_json(), "task": task}
        await self._store.open_run(run, worker=worker, **facts)  # type: ignore[arg-type]
        own = {"profile": TOOLSETS, "run_toolsets": TOOLSETS, "host": "127.0.0.1", "port": 0, "project": project}
        own["elicitation"] = False  # there is no person at the agent's client
        served = Settings(**self._settings.model_dump(exclude_unset=True) | own | {"data": self._settings.data})
        principal = Principal(Kind.AGENT, worker, agent.type)
        shopfloor = await asyncio.to_thread(Shopfloor, served, kind="crew", only=principal)
        async with shopfloor, shopfloor.serving() as url:
            store = RunStore(shopfloor, run)
            driven, token = await store.drive(options.model_dump_json(), spec)
            context = RunContext(
                store=store,
                run=driven,
                options=options,
                settings=served,
                work=work,
                mcp_server=McpServerRef(f"{url}/mcp", token),
                view=WorkerView(self._view, worker),
                rate_limit_pool=self._rate_limits[options.agent, options.model],
                always_allowed=self._always_allowed,
            )
            self._contexts[worker] = context
            self._notify()
            if self._ending is not None:
                context.stop(self._ending.code, "the crew ends")
            try:
                return await drive_agent(context)
            finally:
                del self._contexts[worker]

    async def _drive_again(self, run: str, agent: Agent, *given: Any, **facts: Any) -> Ending:
        """Drive the planner or the reviewer, restarting it after a crash, for up to `--attempts` attempts."""
        ending = await self._drive_agent(run, agent, *given, **facts)
        for attempt in range(1, self._options.attempts):
            if ending.code != AGENT_FAILED or self._is_ending():
                break
            await asyncio.sleep(_BACKOFF_SECONDS * 2**attempt)
            ending = await self._drive_agent(run, agent, *given, **facts)
        return ending

    # The planner

    async def _plan(self) -> None:
        """Drive the planner, then start the work or ask a person."""
        options, board = self._options.planner, await self._store.load_board()
        assert options is not None
        worker, run = f"{self.name}-planner", f"{self.name}.plan"
        agent = await self._store.ensure_agent(worker, Role.PLANNER)
        folder = self._worktrees.folder / "plan"
        fault = await self._merger.prepare_worktree(folder, None)
        if fault is not None:
            self.stop(AGENT_FAILED, f"the worktree cannot be prepared: {fault}")
            return
        template = _load_template(self._settings, options, task_work.PLANNER_TEMPLATE, task_work.PLANNER_VARIABLES)
        admit = functools.partial(self._admit_turn, worker, run)
        work = PlanWork(self._store, self._worktrees, worker, template, admit, epic=board.epic)
        ending = await self._drive_again(run, agent, folder, options, work, spec=board.epic.description)
        if ending.code == 0:
            await self._worktrees.remove_worktree(folder)
            crew = await self._store.finish_planning(run, ask=self._options.approve_plan)
            tasks = [f"task-{task.number} {task.title}" for task in (await self._store.load_board()).tasks]
            self._view.show("planned", crew=self.name, epic=f"epic-{crew.epic}", phase=crew.phase.value, tasks=tasks)
            if crew.phase is Phase.APPROVAL:
                self._show_plan_question()
            await self._refresh()
        elif self._ending is None:
            empty = not (await self._store.load_board()).tasks and ending.code != AGENT_FAILED
            state, code = (RunState.EMPTY, NO_TASKS) if empty else (ending.state, ending.code)
            hint = f"there is no plan: {ending.reason}"
            if code != BUDGET_EXHAUSTED:
                hint += f". Continue: shopfloor crew resume {self.name}"
            self._set_ending(Ending(state, code, hint))

    def _show_plan_question(self) -> None:
        how = f"shopfloor crew approve {self.name}"
        self._view.show("asked", crew=self.name, question="May the crew work on this plan?", how=how)

    # Workers

    async def _work(self, number: int) -> None:
        """Work on one task after another, until the worker is no longer wanted."""
        worker, crashes = self._worker_name(number), 0
        agent = await self._store.ensure_agent(worker)
        while number <= self._status.crew.workers and worker not in self._budgets.leaving and self._ending is None:
            changed = self._changed
            task = await self._find_task(worker)
            if task is None:
                await changed.wait()
                continue
            ending = await self._drive_task(number, agent, task)
            crashes = crashes + 1 if ending.code == AGENT_FAILED else 0
            await self._settle_task(worker, task, ending)
            if crashes and self._ending is None:
                await self._wait_after_crash(worker, crashes)
            await self._refresh()

    async def _find_task(self, worker: str) -> int | None:
        """Return the task that the worker holds, or claim the next one."""
        status = self._status
        if status.crew.wanted is not Wanted.GO or self._is_exhausted:
            return None
        if held := status.held.get(worker):
            # The agent that lost the task may still be ending its turn in the same worktree.
            driven = {each.run.task for each in self._contexts.values() if isinstance(each.work, TaskWork)}
            return next((task for task in held if task not in driven), None)
        # Before the claim: a task without any budget left stays in the queue untouched.
        if not status.ready or await self._find_exhausted_budget(worker, count_iterations=True):
            return None
        if worker in self._budgets.leaving:
            return None
        return await self._store.claim_task(worker)

    async def _drive_task(self, number: int, agent: Agent, task: int) -> Ending:
        """Work on a task in its worktree until it is handed over, lost or given up."""
        worker = agent.name
        found, options = await self._store.load_task(task), self._options.get_worker(number)
        if found.task.state is TaskState.ASSIGNED:
            await self._store.report_task(worker, found.task, "IN_PROGRESS")
        folder = self._worktrees.task_folder(task)
        self._view.show("task_started", crew=self.name, worker=worker, task=f"task-{task}", title=found.task.title)
        fault = await self._merger.prepare_worktree(folder, self._worktrees.task_branch(task))
        if fault is not None:
            return Ending(RunState.FAILED, NO_PROGRESS, f"the worktree cannot be prepared: {fault}")
        returned_at = 0
        if found.merge is not None and found.merge.state is MergeState.RETURNED:
            returned_at = found.merge.updated_at
            await self._worktrees.update_from_crew(folder)
        if self._epic is None:
            self._epic = (await self._store.load_board()).epic
        template = _load_template(self._settings, options, task_work.WORKER_TEMPLATE, task_work.WORKER_VARIABLES)
        run = f"{self.name}.task-{task}"
        if self._budgets.are_set:
            self._budgets.take_over(await self._store.load_board(), worker, run)
        work = TaskWork(
            self._store,
            self._worktrees,
            worker,
            template,
            functools.partial(self._admit_turn, worker, run),
            returned_at=returned_at,
            epic=self._epic,
            number=task,
            review=self._options.reviewer is not None,
        )
        given = RunOptions(**{**options.model_dump(exclude={"count"}), "verify": self._options.verify})
        spec = f"{found.task.title}\n\n{found.task.description or ''}"
        return await self._drive_agent(run, agent, folder, given, work, spec=spec, task=task)

    async def _settle_task(self, worker: str, task: int, ending: Ending) -> None:
        """Update the task according to the ending of its run."""
        facts = {"crew": self.name, "worker": worker, "task": f"task-{task}"}
        if ending.code == 0:
            return
        if ending.code == LOST:
            self._view.show("task_lost", **facts, why=ending.reason)
        elif self._is_ending():
            # The worker keeps it until the crew is resumed; otherwise its lease expires.
            self._view.show("task_left", **facts, folder=str(self._worktrees.task_folder(task)))
        else:
            # The worker's budget, not the task's: another worker continues it.
            is_leaving = worker in self._budgets.leaving
            final = ending.code in (NO_PROGRESS, BUDGET_EXHAUSTED) and not is_leaving
            attempts = sys.maxsize if is_leaving else self._options.attempts
            returned = await self._store.return_task(task, worker, ending.reason, attempts, final=final)
            if ending.code == AGENT_FAILED:
                await self._store.record_crash(worker)
            self._view.show("task_returned", **facts, state=returned.state.value, why=ending.reason)

    async def _wait_after_crash(self, worker: str, crashes: int) -> None:
        """Wait before a restart; after three crashes within a minute, until the agent's pause is over."""
        agent = await self._store.ensure_agent(worker)
        seconds = min(_BACKOFF_SECONDS * 2**crashes, _MAX_BACKOFF_SECONDS)
        now = time.time() * SECOND
        if agent.has_failed(int(now)):
            if self._all_failed(worker):
                hint = f"every worker keeps failing. Continue: shopfloor crew resume {self.name}"
                self._set_ending(Ending(RunState.FAILED, AGENT_FAILED, hint))
                self._notify()
                return
            seconds = max(seconds, ((agent.retry_at or 0) - now) / SECOND)
            self._view.show("worker_paused", crew=self.name, worker=worker, seconds=round(seconds))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._ending is None:
                    await self._changed.wait()
        self._paused.discard(worker)

    def _all_failed(self, worker: str) -> bool:
        self._paused.add(worker)
        return len(self._paused) >= max(self._status.crew.workers, 1)

    # The reviewer

    async def _review(self) -> None:
        """Review one task after another."""
        worker, options = f"{self.name}-reviewer", self._options.reviewer
        assert options is not None
        agent = await self._store.ensure_agent(worker, Role.REVIEWER)
        template = _load_template(self._settings, options, task_work.REVIEWER_TEMPLATE, task_work.REVIEWER_VARIABLES)
        while self._ending is None:
            changed = self._changed
            found = await self._find_queued(
                lambda merge: merge.state is MergeState.REVIEW and (merge.task, merge.commit) not in self._undecided
            )
            if found is None or self._is_exhausted:
                await changed.wait()
                continue
            merge, task = found.merge, found.task
            assert merge is not None
            folder = self._worktrees.folder / f"review-{task.number}"
            await self._worktrees.ensure_worktree(folder, None)
            await self._worktrees.check_out(folder, merge.commit)
            run = f"{self.name}.review-{task.number}"
            admit = functools.partial(self._admit_turn, worker, run)
            facts = {"returned_at": merge.updated_at, "number": task.number}
            work = ReviewWork(self._store, self._worktrees, worker, template, admit, **facts)
            ending = await self._drive_again(run, agent, folder, options, work, spec=task.title, task=task.number)
            await self._worktrees.remove_worktree(folder)
            if ending.code != 0 and not self._is_ending():
                self._undecided.add((merge.task, merge.commit))
                subject = f"task-{task.number} waits for a review: {task.title}"
                hint = f"Approve it: shopfloor task done task-{task.number}"
                await self._store.alert(subject, f"The reviewer did not decide: {ending.reason}\n{hint}")
            await self._refresh()

    async def _find_queued(self, wanted: Callable[[Merge], bool]) -> CrewTask | None:
        """Return the first wanted task in the merge queue that its worker has handed over."""
        if self._status.crew.wanted is not Wanted.GO:
            return None
        for merge in self._status.merges:
            if wanted(merge):
                found = await self._store.load_task(merge.task)
                if found.task.state is TaskState.REVIEW and found.merge is not None and wanted(found.merge):
                    return found
        return None

    # The merge queue

    async def _merge(self) -> None:
        """Merge one task after another."""
        while self._ending is None:
            changed = self._changed
            for merge in self._status.merges:
                # A driver was killed after verification, before it recorded that the branch had moved.
                if merge.state is MergeState.VERIFIED and merge.merged_commit is not None:
                    await self._merger.complete(merge.task, merge.merged_commit)
                    await self._refresh()
            found = await self._find_queued(lambda merge: merge.state is MergeState.QUEUED)
            if found is None:
                await changed.wait()
                continue
            number = found.task.number
            try:
                output, conflict = await self._merger.merge(found), False
            except MergeConflict as error:
                output, conflict = error.message, True
            if output is not None:
                self._view.show("merge_returned", crew=self.name, task=f"task-{number}", why=output)
                await self._store.return_merge(number, output, self._options.attempts, conflict=conflict)
            await self._refresh()

    async def _adopt_foreign_work(self) -> None:
        """Add the branches of finished tasks to the merge queue if people started their agents themselves."""
        if self._status.crew.phase is not Phase.WORK:
            return
        for agent, numbers in self._status.held.items():
            if agent.startswith(f"{self.name}-worker-"):
                continue
            for number in numbers:
                found = await self._store.load_task(number)
                branch = found.task.branch_name
                if found.task.state is not TaskState.REVIEW or not branch:
                    continue
                commit = await self._worktrees.find_commit(branch)
                if commit is not None and (found.merge is None or found.merge.commit != commit):
                    review = self._options.reviewer is not None
                    await self._store.add_merge(number, branch, commit, review=review)

    # The end

    async def finish(self, ending: Ending) -> None:
        """Record the ending of the crew, and mail the report."""
        await self._account(halted=True)
        await self._merger.end_removals()
        board = await self._store.load_board()
        merged = {merge.task for merge in board.merges if merge.state is MergeState.MERGED}
        left = []
        for task in board.tasks:
            folder = self._worktrees.task_folder(task.number)
            if task.number in merged - self._merger.removed:
                await self._merger.remove_worktree(task.number)
            elif await has_changes(folder):
                left.append(f"task-{task.number}: {folder}")
        # A reviewer that was stopped leaves its copy of the work behind.
        for name in ("plan", "merge", *(f"review-{task.number}" for task in board.tasks)):
            folder = self._worktrees.folder / name
            if folder.exists():
                await self._worktrees.remove_worktree(folder)
        report = crew_report.write_report(board, await self._store.list_questions(), ending.reason, left)
        await self._store.finish(ending.state, ending.reason, report)
        for line in left:
            self._view.show("work_left", crew=self.name, where=line)
        facts = {"state": ending.state.value, "exit": ending.code, "reason": ending.reason}
        facts["auto_merge"] = self._options.auto_merge
        self._view.show("crew_ended", crew=self.name, **facts)


def _load_template(settings: Settings, options: RunOptions, default: Path, variables: Sequence[str]) -> str:
    file = None if options.template is None else settings.project / options.template
    return prompt.load_template(file, default, variables)


async def _wait_first(*awaitables: Awaitable[Any]) -> None:
    """Wait until the first one is done. Coroutines are cancelled, tasks continue."""
    tasks = [each if isinstance(each, asyncio.Task) else asyncio.ensure_future(each) for each in awaitables]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task, given in zip(tasks, awaitables, strict=True):
            if task is not given:
                await cancel_task(task)
