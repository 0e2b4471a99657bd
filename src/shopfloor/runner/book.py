"""The book: what the runner writes down and reads of its run. The only place where the runner meets the store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from shopfloor.domain.loops import Iteration, Request, Run, RunState, Told, Wanted, spell, task_id, topic
from shopfloor.domain.tasks import BoardKind, State, Task
from shopfloor.errors import Unavailable, WrongState
from shopfloor.repositories.work import Work
from shopfloor.serving import Shopfloor
from shopfloor.usecases import loops

HISTORY = 5
TEXT_AIM = 20_000
"""Characters of tasks, and of notes, that a prompt carries at most."""

PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds to wait, one after the other, while the store cannot be reached."""

P = ParamSpec("P")
T = TypeVar("T")


class Book:
    """One run in the store."""

    def __init__(self, shopfloor: Shopfloor, name: str) -> None:
        self._floor = shopfloor.floor
        self.name = name

    async def _write(self, fn: Callable[Concatenate[Work, str, P], T], *arguments: P.args, **named: P.kwargs) -> T:
        return await self._change(lambda work: fn(work, self.name, *arguments, **named))

    async def _change(self, fn: Callable[[Work], T]) -> T:
        return await _patiently(self._floor.administer, fn)

    async def _read(self, fn: Callable[[Work], T]) -> T:
        return await _patiently(self._floor.look, fn)

    async def run(self) -> Run:
        return await self._read(lambda work: work.runs.get(self.name))

    async def drive(self, options: str, spec: str | None) -> tuple[Run, str]:
        """The run, driven by this process from now on, and a token for its agent."""
        return await self._write(loops.drive, options, spec)

    async def next_number(self) -> int:
        return await self._read(lambda work: loops.next_number(work, self.name))

    async def begin(self, number: int, *, retold: bool) -> tuple[Iteration, Told]:
        return await self._write(loops.begin_iteration, number, retold=retold)

    async def told(self, number: int, told: Told) -> None:
        """Write down that the agent has the prompt of this iteration, and what it carries."""
        await self._write(loops.told, number, told)

    async def opened(self, session: str) -> None:
        """Remember the agent's name for the conversation."""
        await self._change(lambda work: work.runs.change(self.name, work.now, session=session))

    async def close(self, *, outcome: str, failure: str | None, tokens: int, cost: int, spent: int) -> None:
        await self._write(loops.end_iteration, outcome=outcome, failure=failure, tokens=tokens, cost=cost, spent=spent)

    async def fail(self, number: int, failure: str) -> None:
        """Write down that the work of an iteration did not pass."""
        await self._change(lambda work: work.runs.change_iteration(self.name, number, failure=failure))

    async def iteration(self, number: int) -> Iteration | None:
        return await self._read(lambda work: work.runs.iteration(self.name, number))

    async def finish(self, state: RunState, reason: str) -> None:
        await self._write(loops.finish, state, reason)

    async def judge(self, wish: int, verdict: str | None) -> None:
        await self._write(loops.judge, wish, verdict)

    async def standstill(self) -> tuple[int, bool]:
        return await self._read(lambda work: loops.standstill(work, self.name))

    async def repeated_failure(self) -> tuple[int, bool]:
        return await self._read(lambda work: loops.repeated_failure(work, self.name))

    async def tasks(self) -> list[Task]:
        return await self._read(lambda work: list(loops.all_tasks(work, self.name)))

    async def current_task(self) -> str:
        """What the agent works on, as people read it."""

        def found(work: Work) -> Task | None:
            return loops.next_task(work, self.name).in_progress

        task = await self._read(found)
        return "-" if task is None else f"{task_id(task.number)} {task.title}"

    async def completed_since(self, at: int) -> list[Task]:
        """The tasks that were completed from then on."""
        return [task for task in await self.tasks() if task.completed_at is not None and task.completed_at >= at]

    async def acceptance(self) -> list[list[str]]:
        """The commands that people set for single tasks."""
        tasks = await self.tasks()
        return [json.loads(task.acceptance) for task in tasks if task.acceptance and task.state is not State.CANCELLED]

    async def material(self) -> dict[str, str]:
        """What a prompt says of tasks, notes and history."""
        return await self._read(self._material)

    def _material(self, work: Work) -> dict[str, str]:
        tasks = [
            f"- {task_id(task.number)} [{spell(task.state)}, priority {task.priority}] {' '.join(task.title.split())}"
            for task in loops.all_tasks(work, self.name)
        ]
        notes = [
            f"- {note.id} [{note.type}, iteration {note.iteration}] {note.content}"
            for note in work.run_talk.notes(self.name, 200, newest_first=True)
        ]
        iterations = work.runs.iterations(self.name, 200)
        history = [f"- Iteration {each.number}: {each.summary}" for each in iterations if each.summary][:HISTORY]
        return {
            "tasks": _fitting(tasks, "There are no tasks yet."),
            "notes": _fitting(notes, "There are no notes yet."),
            "history": "\n".join(reversed(history)) or "Nothing was done yet.",
        }

    async def questions(self) -> list[Request]:
        """What the run asks and nobody has answered, apart from permissions, which are shown where they are asked."""
        asked = await self._read(lambda work: work.run_talk.pending(50, self.name))
        return [request for request in asked if request.kind != "permission"]

    async def ask(self, question: str, options: tuple[str, ...]) -> Request:
        return await self._write(loops.ask_person, "permission", question, options)

    async def answer_to(self, number: int, *, seconds: float, dropped: Callable[[], bool]) -> str | None:
        """A person's answer; nothing when none came in time or the question was dropped."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            mark = self.mark()
            request = await self._read(lambda work: work.run_talk.request(number))
            if request.answered_at is not None:
                return None if request.answer == loops.WITHDRAWN else request.answer
            if loop.time() >= until or dropped():
                await self._write(loops.withdraw, number)
                return None
            await self.stirred(mark, min(0.5, until - loop.time()))

    async def answer(self, number: int, text: str) -> None:
        await self._change(lambda work: loops.answer(work, number, text))

    def mark(self) -> int:
        return self._floor.wake.mark()

    async def stirred(self, mark: int, seconds: float) -> None:
        """Return when something happened to the run after the mark, or when the time is up."""
        await self._floor.wake.wait(topic(self.name), mark, seconds)


async def _patiently(door: Callable[[Callable[[Work], T]], T], fn: Callable[[Work], T]) -> T:
    """What `fn` returns; a failure of the store that may pass is sat out for a while."""
    for pause in PAUSES:
        try:
            return await asyncio.to_thread(door, fn)
        except Unavailable:
            await asyncio.sleep(pause)
    return await asyncio.to_thread(door, fn)


def _fitting(lines: list[str], empty: str) -> str:
    kept: list[str] = []
    size = 0
    for line in lines:
        size += len(line)
        if size > TEXT_AIM:
            kept.append(f"… and {len(lines) - len(kept)} more; your tools list them all.")
            break
        kept.append(line)
    return "\n".join(kept) or empty


def create(shopfloor: Shopfloor, name: str | None, wanted: str, spec: str, options: str) -> str:
    """The name of a new run."""

    def created(work: Work) -> Run:
        free = loops.free_name(work, wanted) if name is None else name
        return loops.create(work, free, spec=spec, project=str(shopfloor.settings.project), options=options)

    return shopfloor.floor.administer(created).name


def find(shopfloor: Shopfloor, name: str | None) -> Run:
    """The run of that name, or the latest one."""
    return shopfloor.floor.look(lambda work: work.runs.get(loops.principal(work, name).name))


def listed(shopfloor: Shopfloor, limit: int) -> list[dict[str, Any]]:
    """The runs, the latest first, as people read them."""

    def rows(work: Work) -> list[dict[str, Any]]:
        return [_row(work, run) for run in work.runs.page(limit)]

    return shopfloor.floor.look(rows)


def _row(work: Work, run: Run) -> dict[str, Any]:
    board = work.tasks_of(BoardKind.LOOP, run.name)
    state = run.state.value
    if run.state is RunState.ACTIVE:
        state = "paused" if run.wanted is Wanted.PAUSE else "running" if loops.is_driven(work, run) else "interrupted"
    return {
        "run": run.name,
        "state": state,
        "iteration": run.iteration,
        "tasks": f"{board.count(state=State.COMPLETED)}/{board.count()}",
        "tokens": run.tokens,
        "cost": round(run.cost / 1_000_000, 4),
        "reason": run.reason,
    }


def pending(shopfloor: Shopfloor) -> list[Request]:
    """What runs ask and nobody has answered yet."""
    return shopfloor.floor.look(lambda work: work.run_talk.pending(200))


def answered(shopfloor: Shopfloor, number: int, text: str) -> Request:
    """The question, with its answer."""
    return shopfloor.floor.administer(lambda work: loops.answer(work, number, text))


def said(shopfloor: Shopfloor, name: str, text: str) -> Run:
    """The run, which reads the text in its next prompt."""
    return shopfloor.floor.administer(lambda work: loops.say(work, name, text))


def steered(shopfloor: Shopfloor, name: str, wanted: str) -> Run:
    """The run, with what a person wants of it: go, pause or stop; refused when no process is there to heed it."""

    def steer(work: Work) -> Run:
        run = loops.steer(work, name, Wanted(wanted))
        if not loops.is_driven(work, run):
            raise WrongState(
                f"the run '{name}' was interrupted, and no process drives it",
                hint=f"Go on with it: shopfloor run --resume {name}",
            )
        return run

    return shopfloor.floor.administer(steer)


def accepted(shopfloor: Shopfloor, name: str, task: str, command: tuple[str, ...] | None) -> str:
    """The id of the task, which has this acceptance command now."""
    text = None if command is None else json.dumps(command)
    return task_id(shopfloor.floor.administer(lambda work: loops.accept(work, name, task, text)).number)
