"""Drive: what a run has at hand while it goes from state to state, and where its agent's requests arrive."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shopfloor.domain.loops import Iteration, Run, RunState, Told, Wanted, spell, task_id
from shopfloor.domain.tasks import State
from shopfloor.domain.times import SECOND
from shopfloor.runner import hooks, permissions, verification
from shopfloor.runner.acp import Agent, Door, PermissionAsked
from shopfloor.runner.book import Book
from shopfloor.runner.budgets import Stopwatch, Usage
from shopfloor.runner.changes import Dirty
from shopfloor.runner.options import RunOptions
from shopfloor.runner.permissions import ALLOW, ANSWERS, DENY
from shopfloor.runner.processes import Outcome
from shopfloor.runner.view import View
from shopfloor.serving import Shopfloor
from shopfloor.settings import Moment, Settings


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ends: its state, the exit code, and why."""

    state: RunState
    code: int
    reason: str


@dataclass
class Drive:
    """A run on its way."""

    book: Book
    run: Run
    options: RunOptions
    settings: Settings
    template: str
    door: Door
    shopfloor: Shopfloor
    view: View
    at: str = ""
    task: str = "-"
    agent: Agent | None = None
    session: str | None = None
    iteration: Iteration | None = None
    prompt: str = ""
    told: Told = field(default_factory=Told)
    usage: Usage = field(default_factory=Usage)
    watch: Stopwatch = field(default_factory=Stopwatch)
    before: Dirty = field(default_factory=dict)
    outcome: str = "ended"
    failure: str | None = None
    retold: int = 0
    launches: int = 0
    verified_after: int | None = None
    to_tell: list[str] = field(default_factory=list)
    owed: list[str] = field(default_factory=list)
    ending: Ending | None = None
    cancelling: bool = False
    in_turn: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _ended_waiter: asyncio.Task[Any] | None = None
    _shown: set[int] = field(default_factory=set)
    _judging: asyncio.Lock = field(default_factory=asyncio.Lock)
    _accounted: float = field(default_factory=time.monotonic)

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def project(self) -> Path:
        return self.settings.project

    # Stopping and steering

    def stop(self, code: int, why: str) -> None:
        """Come to an end as soon as possible; the first reason counts."""
        if self.ending is None:
            self.ending = Ending(RunState.STOPPED, code, self.how_to_go_on(why))
        self._ended.set()

    def ends_with(self, ending: Ending | None) -> bool:
        """Whether the run comes to its end: by this, or by a stop that came while this was found out."""
        self.ending = self.ending or ending
        return self.ending is not None

    def stop_as_asked(self) -> None:
        self.stop(6, "a person stopped it")

    def wakened(self) -> asyncio.Task[Any]:
        """Done as soon as the run should come to an end."""
        if self._ended_waiter is None:
            self._ended_waiter = asyncio.create_task(self._ended.wait())
        return self._ended_waiter

    def how_to_go_on(self, why: str, *options: str) -> str:
        return f"{why}. Go on: {' '.join(['shopfloor run --resume', self.name, *options])}"

    async def follow(self) -> None:
        """Heed what people want, show what they are asked, and judge what the agent calls complete while it waits."""
        while True:
            mark = self.book.mark()
            self.run = await self.book.run()
            self.task = await self.book.current_task()
            if self.run.wanted is Wanted.STOP:
                self.stop_as_asked()
            if self.in_turn.is_set() and self.run.wish > self.run.judged:
                await self.judge()
            await self._show_questions()
            await self.book.stirred(mark, 2.0)

    async def _show_questions(self) -> None:
        """Tell the view, once each, what waits in the inbox for a person."""
        for request in await self.book.questions():
            if request.number not in self._shown:
                self._shown.add(request.number)
                how = f"shopfloor inbox answer request-{request.number} {'|'.join(request.options) or 'TEXT'}"
                self.view.show(
                    "asked", run=self.name, number=request.number, kind=request.kind, question=request.question, how=how
                )

    # Verification

    async def judge(self) -> str | None:
        """What is wrong with the work; nothing when it is done. The agent's wish is answered with it."""
        async with self._judging:
            wish = (await self.book.run()).wish
            verdict = await self._verdict()
            await self.book.judge(wish, verdict)
            return verdict

    async def _verdict(self) -> str | None:
        tasks = await self.book.tasks()
        commands = [*self.options.verify, *await self.book.acceptance()]
        unfinished = {State.IN_PROGRESS, State.PENDING} | (set() if commands else {State.BLOCKED})
        for task in tasks:
            if task.state in unfinished:
                return f"{task_id(task.number)} is {spell(task.state)}"
        if not tasks and not commands:
            return "there are no tasks, and no command to verify the work with"
        failing = await verification.failing(commands, self.project, self.options.verify_time, self._verified)
        return None if failing is None else verification.explained(failing)

    def _verified(self, outcome: Outcome) -> None:
        self.view.show("verified", run=self.name, command=list(outcome.command), exit=outcome.code)

    async def praise(self) -> str:
        """What a completed run has to show."""
        commands = len(self.options.verify) + len(await self.book.acceptance())
        tasks = await self.book.tasks()
        blocked = [task_id(task.number) for task in tasks if task.state is State.BLOCKED]
        how = f"{commands} acceptance commands passed" if commands else "no acceptance command was set"
        left = f"; blocked: {', '.join(blocked)}" if blocked else ""
        return f"all of {len(tasks)} tasks are settled and {how}{left}"

    # Accounts

    @property
    def unaccounted(self) -> float:
        """Seconds that are not in the store yet."""
        return time.monotonic() - self._accounted

    def account(self) -> int:
        """Microseconds since the last account."""
        now = time.monotonic()
        spent, self._accounted = now - self._accounted, now
        return int(spent * SECOND)

    def show_progress(self) -> None:
        """Tell the view where the run stands."""
        limits = [f"iteration {self.run.iteration + 1}/{self.options.iterations}"]
        limits.append(f"{int(self.watch.seconds)}/{self.options.iteration_time:g} s")
        if self.options.tokens is not None:
            limits.append(f"{self.run.tokens + self.usage.tokens}/{self.options.tokens} tokens")
        budget = ", ".join(limits)
        self.view.show("progress", run=self.name, iteration=self.run.iteration, task=self.task, budget=budget)

    # The project's hooks

    async def hook(self, moment: Moment, **facts: Any) -> None:
        """Run the hooks of a moment; a failing one is shown and stops nothing."""
        known = {"run": self.name, "iteration": self.run.iteration, **facts}
        outcomes, for_agent = await hooks.run(self.settings.hooks, moment, self.project, known)
        self.to_tell.extend(for_agent)
        for outcome in outcomes:
            self.view.show("hook", run=self.name, moment=moment, command=list(outcome.command), exit=outcome.code)

    # The agent's side

    async def end_agent(self) -> None:
        """Nothing of the agent is left."""
        agent, self.agent = self.agent, None
        if agent is not None:
            await agent.leave(self.options.grace)

    async def permit(self, asked: PermissionAsked) -> str | None:
        """The id of the option that the rules, or a person, chose."""
        answer = self._settled(asked)
        if answer is None:
            answer = await self._ask(asked)
        if answer is None and self._dropped():
            return None
        chosen = permissions.choose(asked, answer or DENY)
        self.view.show("permission", run=self.name, kind=asked.kind, title=asked.title, answer=answer or DENY)
        return chosen

    def _settled(self, asked: PermissionAsked) -> str | None:
        if permissions.is_own_tool(asked) or self.options.permissions == "allow":
            return ALLOW
        if self.options.permissions == "deny":
            return DENY
        if self.options.permissions == "rules":
            answer = permissions.by_rules(asked, self.settings.run_permissions, self.project)
            return None if answer == "ask" else answer
        return None

    async def _ask(self, asked: PermissionAsked) -> str | None:
        question = permissions.question(asked)
        request = await self.book.ask(question, ANSWERS)
        self.view.show("permission_asked", run=self.name, number=request.number, question=question)
        with self.watch:
            answer = await self.book.answer_to(
                request.number, seconds=self.options.permission_time, dropped=self._dropped
            )
        self.view.show("permission_answered", run=self.name, number=request.number, answer=answer)
        return answer

    def _dropped(self) -> bool:
        return self.cancelling or self.ending is not None or not self.in_turn.is_set()

    async def read(self, path: str, line: int | None, limit: int | None) -> str:
        text = await asyncio.to_thread(self.shopfloor.read_file, path)
        if line is None and limit is None:
            return text
        lines = text.splitlines(keepends=True)
        first = max((line or 1) - 1, 0)
        return "".join(lines[first : None if limit is None else first + limit])

    async def write(self, path: str, content: str) -> None:
        await asyncio.to_thread(self.shopfloor.write_file, path, content)
        self.view.show("file_written", run=self.name, path=path)

    def updated(self, session: str, update: dict[str, Any]) -> None:
        """Take the agent's news as it comes; what nobody knows is passed over."""
        match update.get("sessionUpdate"):
            case "tool_call" | "tool_call_update":
                facts = {key: _text(update.get(key)) for key in ("title", "kind", "status")}
                self.view.show("tool_call", run=self.name, id=_text(update.get("toolCallId")), **facts)
            case "usage_update" if session == self.session:
                cost = update.get("cost")
                self.usage.report(update.get("used"), cost.get("amount") if isinstance(cost, dict) else None)
            case "agent_message_chunk":
                content = update.get("content")
                with contextlib.suppress(AttributeError):
                    self.view.show("said", run=self.name, text=_text(content.get("text")))  # type: ignore[union-attr]


def _text(value: Any) -> str | None:
    return value[:500] if isinstance(value, str) else None
