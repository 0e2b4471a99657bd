"""RunContext: everything a run needs as it moves from state to state."""

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
from shopfloor.settings import WORKTREE_FOLDER, Moment, Settings

BUDGET_EXHAUSTED, NO_PROGRESS, AGENT_FAILED, STOPPED_BY_PERSON = 3, 4, 5, 6
NO_TASKS, TASKS_BLOCKED, NOT_ANSWERED = 7, 8, 9
"""Exit codes. Codes above 128 are for signals that stop a run."""

ALERT_CODES = frozenset({BUDGET_EXHAUSTED, NO_PROGRESS, AGENT_FAILED, NO_TASKS, TASKS_BLOCKED, NOT_ANSWERED})
"""Exit codes of runs that ended on their own before the work was done: a person gets mail."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ends: its state, the exit code, and why."""

    state: RunState
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """What the run waits for, for how long, and whether a person's answer ends the wait."""

    reason: str
    seconds: float
    for_answer: bool = False


@dataclass(frozen=True, slots=True)
class Proof:
    """Proof that the acceptance commands pass with the files of this fingerprint."""

    tree: str
    commands: tuple[tuple[str, ...], ...]


@dataclass
class CurrentIteration:
    """The iteration that is in progress."""

    iteration: Iteration
    prompt: str
    inbound: PromptMail
    unacknowledged_extras: list[str]
    """Extra paragraphs of this prompt that no agent has acted on yet. They are repeated if the agent fails."""
    dirty_before: DirtyFiles
    session: str = ""
    usage: Usage = field(default_factory=Usage)
    watch: Stopwatch = field(default_factory=Stopwatch)
    outcome: str = "ended"
    failure: str | None = None
    permitted: set[Path] = field(default_factory=set)
    """Files that the agent asked to change and may change. Each entry allows one write through the runner."""

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
    """After this many iterations without progress, the next prompt says so; 0 for never."""
    has_begun: bool = False
    """Whether an iteration has begun since this process started driving the run."""
    launches: int = 0
    launch_failure: str = "the agent cannot be started"
    failures: int = 0
    """Number of consecutive failed iterations."""
    requests_at_launch: int = 0
    """Number of requests that the run's server had received when the agent was launched."""
    turns_without_tools: int = 0
    """Number of consecutive turns without a single request to the run's server."""
    rate_limits: int = 0
    """Number of consecutive rate limits."""
    rate_limit_pool: RateLimitPool = field(default_factory=RateLimitPool)
    """The rate limit of the agent's provider. Identical agents of a crew share it."""
    always_allowed: set[str] = field(default_factory=set)
    """The subjects of permission requests that a person answered with `always`. The agents of a crew share them."""
    wait: Wait | None = None
    """What to wait for before the next working state."""
    no_tokens_shown: bool = False
    """Whether the view has already shown that the agent reports no tokens."""
    recorder: TranscriptRecorder = field(init=False)
    proven: dict[int, str] = field(default_factory=dict)
    """Completed tasks whose own acceptance command has passed, with that command."""
    verified_after: int | None = None
    proof: Proof | None = None
    """The last check of the work, if it passed and the files did not change meanwhile."""
    prompt_extras: list[str] = field(default_factory=list)
    ending: Ending | None = None
    judging: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the work is checked: acceptance commands of two checks must not run concurrently."""
    _turn_over: asyncio.Event = field(default_factory=asyncio.Event)
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _stop_task: asyncio.Task[Any] | None = None
    clock: Stopwatch = field(default_factory=Stopwatch)
    """The time that counts toward the budget and is not stored yet. It is paused while the run waits for others."""

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
        # `_turn_over` drops the agent's questions, `_stopped` ends waiting states.
        self.set_ending(Ending(RunState.STOPPED, code, self.resume_hint(why)))
        self._turn_over.set()
        self._stopped.set()

    def stop_for_person(self) -> None:
        """End the run because a person stopped it."""
        self.stop(STOPPED_BY_PERSON, "a person stopped it")

    def set_ending(self, ending: Ending | None) -> bool:
        """Set the ending unless the run is already stopping; return whether it is ending."""
        self.ending = self.ending or ending
        return self.ending is not None

    def stop_task(self) -> asyncio.Task[Any]:
        """Return a task that is done once the run should stop."""
        # One task for all waits: asyncio.wait neither cancels nor awaits it, and one task per wait would pile up.
        if self._stop_task is None:
            self._stop_task = asyncio.create_task(self._stopped.wait())
        return self._stop_task

    def resume_hint(self, why: str, *options: str) -> str:
        """Add to a reason how to continue the run."""
        # A crew drives its agents and has its own hint.
        if self.run.crew is not None:
            return why
        return f"{why}. Continue: {' '.join(['shopfloor run --resume', self.name, *options])}"

    def budget_hint(self, budget: ExhaustedBudget) -> str:
        """Say which budget is exhausted, and which option continues the run."""
        crew = self.run.crew
        if crew is None:
            return self.resume_hint(budget.reason, budget.option)
        # A task with an exhausted budget has failed. The budgets of a plan and a review are raised by the same option.
        retry = "" if self.run.task is None else " --retry-failed"
        option = budget.option.replace("--", "--task-", 1)
        return f"{budget.reason}. Continue: shopfloor crew resume {crew}{retry} {option}"

    # The turn of the agent

    def begin_turn(self) -> None:
        """Note that the agent is working on its prompt; its requests are served until the turn is over."""
        if self.ending is None:
            self._turn_over.clear()

    def end_turn(self) -> None:
        """Note that the turn ended or is being cancelled; drop the agent's open questions."""
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
        """Seconds that are not stored yet."""
        return self.clock.seconds

    def account(self) -> int:
        """Return the microseconds since the last call, and restart the clock."""
        return int(self.clock.restart() * SECOND)

    async def store_usage(self) -> None:
        """Store the agent's usage since the last call, so that a kill does not lose it."""
        assert self.current is not None
        tokens, cost = self.current.usage.take_unstored()
        if tokens or cost:
            await self.store.record_usage(tokens, cost)

    # Views, hooks and commits

    async def begin_waiting(self, reason: str, seconds: float) -> None:
        """Show and record what the run waits for, and its deadline."""
        until = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds").replace("+00:00", "Z")
        self.view.show("waiting", run=self.name, why=reason, until=until)
        await self.store.set_waiting(f"until {until}: {reason}")

    def show_progress(self) -> None:
        """Show the progress of the iteration."""
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
        """Move the branch of the run's worktree to the commits that a sandbox made on a detached HEAD."""
        top = self.settings.data / WORKTREE_FOLDER / self.name
        if self.run.crew is None and self.project.is_relative_to(top):
            try:
                await git.publish_commits(top, f"{git.BRANCH_PREFIX}{self.name}")
            except ShopfloorError as error:
                self.view.show("commit_failed", run=self.name, iteration=self.run.iteration, failure=error.message)

    async def run_hooks(self, moment: Moment, **facts: Any) -> None:
        """Run the project's hooks for the given moment. A failed hook is shown, and does not stop the run."""
        known = {"run": self.name, "iteration": self.run.iteration, **facts}
        results, prompt_extras = await hooks.run_hooks(self.settings.hooks, moment, self.project, known)
        self.prompt_extras.extend(prompt_extras)
        for result in results:
            self.view.show("hook", run=self.name, moment=moment, command=list(result.command), exit=result.code)


async def cancel_task(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for it to end, so that it cannot outlive its caller. Its result or error is ignored."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, ShopfloorError):
        await task
