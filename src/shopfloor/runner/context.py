"""RunContext: what a run needs while it goes from state to state."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from shopfloor.domain.runs import Iteration, PromptMail, Run, RunState
from shopfloor.domain.times import SECOND
from shopfloor.errors import ShopfloorError
from shopfloor.runner import git, hooks
from shopfloor.runner.acp import Agent, McpServerRef
from shopfloor.runner.budgets import ExhaustedBudget, Stopwatch, Usage
from shopfloor.runner.git import DirtyFiles
from shopfloor.runner.options import RunOptions
from shopfloor.runner.rate_limits import RateLimitPool
from shopfloor.runner.run_store import RunStore
from shopfloor.runner.transcript import TranscriptRecorder
from shopfloor.runner.view import View
from shopfloor.runner.work import Work
from shopfloor.settings import Moment, Settings

BUDGET_EXHAUSTED, NO_PROGRESS, AGENT_FAILED, STOPPED_BY_PERSON = 3, 4, 5, 6
NO_TASKS, TASKS_BLOCKED, NOT_ANSWERED = 7, 8, 9
"""Exit codes. Those above 128 are for signals that stop a run."""

ALERT_CODES = frozenset({BUDGET_EXHAUSTED, NO_PROGRESS, AGENT_FAILED, NO_TASKS, TASKS_BLOCKED, NOT_ANSWERED})
"""Exit codes of runs that ended by themselves without being done: a person gets a mail."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ends: its state, the exit code, and why."""

    state: RunState
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """What the run waits for before it continues, for how long, and whether an answer of a person ends it."""

    reason: str
    seconds: float
    for_answer: bool = False


@dataclass(frozen=True, slots=True)
class Proof:
    """What acceptance commands have proven: that they pass with the files of this fingerprint."""

    tree: str
    commands: tuple[tuple[str, ...], ...]


@dataclass
class CurrentIteration:
    """The iteration that is in progress."""

    iteration: Iteration
    prompt: str
    inbound: PromptMail
    unacknowledged_extras: list[str]
    """Extras of this prompt that no agent has acted on yet. They are repeated when the agent fails."""
    dirty_before: DirtyFiles
    session: str = ""
    usage: Usage = field(default_factory=Usage)
    watch: Stopwatch = field(default_factory=Stopwatch)
    outcome: str = "ended"
    failure: str | None = None
    permitted: set[Path] = field(default_factory=set)
    """Files that the agent asked to change and may. Each entry holds for one write through the runner."""

    @property
    def number(self) -> int:
        return self.iteration.number


@dataclass
class RunContext:
    """A run that is being driven. The states own its fields; others use its methods."""

    store: RunStore
    run: Run
    options: RunOptions
    settings: Settings
    work: Work
    mcp_server: McpServerRef
    view: View
    state: str = ""
    task: str = "-"
    agent: Agent | None = None
    current: CurrentIteration | None = None
    failure: str | None = None
    prompt_changed: int = 0
    """After how many iterations without progress the next prompt says so; 0 when it does not."""
    has_begun: bool = False
    """Whether an iteration has begun since this process drives the run."""
    launches: int = 0
    launch_failure: str = "the agent cannot be started"
    failures: int = 0
    """How many iterations in a row have failed."""
    requests_at_launch: int = 0
    """How many requests the run's server had got when the agent was launched."""
    turns_without_tools: int = 0
    """How many turns in a row ended without a single request to the run's server."""
    rate_limits: int = 0
    """How many rate limits came in a row."""
    rate_limit_pool: RateLimitPool = field(default_factory=RateLimitPool)
    """The rate limit of the agent's provider. The agents of a crew that are the same share it."""
    always_allowed: set[str] = field(default_factory=set)
    """The subjects of permission requests that a person answered with `always`. The agents of a crew share them."""
    wait: Wait | None = None
    """What to wait for before the next state that works."""
    tokens_missed: bool = False
    """Whether it was shown that the agent reports no tokens."""
    recorder: TranscriptRecorder = field(init=False)
    proven: dict[int, str] = field(default_factory=dict)
    """Completed tasks whose own acceptance command has passed, with the command."""
    verified_after: int | None = None
    proof: Proof | None = None
    """The last check of the work, if it passed and the files stayed as they were meanwhile."""
    prompt_extras: list[str] = field(default_factory=list)
    ending: Ending | None = None
    judging: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the work is checked: acceptance commands of two checks must not run at the same time."""
    _turn_over: asyncio.Event = field(default_factory=asyncio.Event)
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _stop_task: asyncio.Task[Any] | None = None
    clock: Stopwatch = field(default_factory=Stopwatch)
    """The time that counts for the budget and is not in the store yet. It is halted while the run waits for others."""

    def __post_init__(self) -> None:
        self.recorder = TranscriptRecorder(self.store)
        self._turn_over.set()

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def project(self) -> Path:
        return self.settings.project

    # Stopping

    def stop(self, code: int, why: str) -> None:
        """End the run as soon as possible. The first reason counts."""
        # `_turn_over` drops the questions of the agent, `_stopped` ends the states that wait.
        self.set_ending(Ending(RunState.STOPPED, code, self.resume_hint(why)))
        self._turn_over.set()
        self._stopped.set()

    def stop_for_person(self) -> None:
        """End the run because a person stopped it."""
        self.stop(STOPPED_BY_PERSON, "a person stopped it")

    def set_ending(self, ending: Ending | None) -> bool:
        """Set the ending unless the run is already stopping; return whether it ends."""
        self.ending = self.ending or ending
        return self.ending is not None

    def stop_task(self) -> asyncio.Task[Any]:
        """Return a task that is done as soon as the run should stop."""
        # One task for all waits: asyncio.wait neither cancels nor awaits it, and one per wait would pile up.
        if self._stop_task is None:
            self._stop_task = asyncio.create_task(self._stopped.wait())
        return self._stop_task

    def resume_hint(self, why: str, *options: str) -> str:
        """Add to a reason how to continue the run."""
        # The agents of a crew are driven by their crew, which says itself how to continue.
        if self.run.crew is not None:
            return why
        return f"{why}. Continue: {' '.join(['shopfloor run --resume', self.name, *options])}"

    def budget_hint(self, budget: ExhaustedBudget) -> str:
        """Say which budget is used up, and with which option to continue."""
        crew = self.run.crew
        if crew is None:
            return self.resume_hint(budget.reason, budget.option)
        # A task whose budget is used up has failed. The budgets of a plan and a review are raised by the same option.
        retry = "" if self.run.task is None else " --retry-failed"
        option = budget.option.replace("--", "--task-", 1)
        return f"{budget.reason}. Continue: shopfloor crew resume {crew}{retry} {option}"

    # The turn of the agent

    def begin_turn(self) -> None:
        """Note that the agent works on its prompt; until the turn is over, its requests are served."""
        if self.ending is None:
            self._turn_over.clear()

    def end_turn(self) -> None:
        """Note that the turn ended or is being cancelled; open questions of the agent are dropped."""
        self._turn_over.set()

    @property
    def is_in_turn(self) -> bool:
        return not self._turn_over.is_set()

    async def wait_for_turn_end(self) -> None:
        """Wait until the turn is over."""
        await self._turn_over.wait()

    async def end_agent(self) -> None:
        """End the agent's process, if there is one."""
        agent, self.agent = self.agent, None
        if agent is not None:
            await agent.shut_down(self.options.grace)

    # Time

    @property
    def unaccounted(self) -> float:
        """Seconds that the store does not have yet."""
        return self.clock.seconds

    def account(self) -> int:
        """Return the microseconds since the last account, and begin a new one."""
        return int(self.clock.restart() * SECOND)

    async def store_usage(self) -> None:
        """Store what the agent has used since the last time: a kill must not lose it."""
        assert self.current is not None
        tokens, cost = self.current.usage.take_unstored()
        if tokens or cost:
            await self.store.record_usage(tokens, cost)

    # What people and the project see

    async def begin_waiting(self, reason: str, seconds: float) -> None:
        """Show and record what the run waits for, and until when at most."""
        until = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds").replace("+00:00", "Z")
        self.view.show("waiting", run=self.name, why=reason, until=until)
        await self.store.set_waiting(f"until {until}: {reason}")

    def show_progress(self) -> None:
        """Show how far the iteration is."""
        assert self.current is not None
        limits = [f"iteration {self.run.iteration + 1}/{self.options.iterations}"]
        limits.append(f"{int(self.current.watch.seconds)}/{self.options.iteration_time:g} s")
        tokens = self.run.tokens + self.current.usage.tokens
        if self.options.tokens is not None:
            limits.append(f"{tokens}/{self.options.tokens} tok")
        elif tokens:
            limits.append(f"{tokens} tok")
        budget = " · ".join(limits)
        self.view.show("progress", run=self.name, iteration=self.run.iteration, task=self.task, budget=budget)

    async def publish_commits(self) -> None:
        """Move the branch of a run's own worktree to the commits that were made off the branch, in a sandbox."""
        top = self.settings.data / git.WORKTREE_FOLDER / self.name
        if self.run.crew is None and self.project.is_relative_to(top):
            try:
                await git.publish_commits(top, f"{git.BRANCH_PREFIX}{self.name}")
            except ShopfloorError as error:
                self.view.show("commit_failed", run=self.name, iteration=self.run.iteration, failure=error.message)

    async def run_hooks(self, moment: Moment, **facts: Any) -> None:
        """Run the project's hooks of a moment. One that fails is shown and stops nothing."""
        known = {"run": self.name, "iteration": self.run.iteration, **facts}
        results, prompt_extras = await hooks.run_hooks(self.settings.hooks, moment, self.project, known)
        self.prompt_extras.extend(prompt_extras)
        for result in results:
            self.view.show("hook", run=self.name, moment=moment, command=list(result.command), exit=result.code)


async def cancel_task(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end, so that none outlives its caller. Its result or error no longer matters."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, ShopfloorError):
        await task
