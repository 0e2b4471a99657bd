"""The budgets of a crew and of its workers: each use counts once, and a turn that a budget allowed comes to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shopfloor.domain.crews import Role
from shopfloor.domain.times import SECOND
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.runner.budgets import Stopwatch, Usage
from shopfloor.runner.context import cancel_task
from shopfloor.runner.crew import CrewDriver
from shopfloor.runner.crew_options import CrewOptions
from shopfloor.runner.crew_store import CrewStore
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import crews, epics, iterations
from tests.operator_access import write_as_operator
from tests.runner.support import RecordingView

pytestmark = pytest.mark.anyio

ONE, TWO = "night-worker-1", "night-worker-2"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Turn:
    """The part of a run's context that the budgets of its crew look at, in the middle of a turn."""

    current: Any = field(default_factory=lambda: SimpleNamespace(usage=Usage()))
    clock: Stopwatch = field(default_factory=Stopwatch)
    unaccounted: float = 0.0
    is_in_turn: bool = True
    stops: list[str] = field(default_factory=list)

    def stop(self, code: int, why: str) -> None:
        self.stops.append(why)


class Crew:
    """A crew with two workers in the store, and its driver."""

    def __init__(self, shopfloor: Shopfloor) -> None:
        self.shopfloor, self.view = shopfloor, RecordingView()

    async def write(self, fn: Any) -> Any:
        return await asyncio.to_thread(write_as_operator, self.shopfloor, fn)

    async def drive(self, **budgets: Any) -> CrewDriver:
        store = CrewStore(self.shopfloor, "night")
        await store.drive("{}", None, retry_failed=False)
        worktrees: Any = None
        options = CrewOptions(**budgets)
        return CrewDriver(self.shopfloor.settings, options, store, worktrees, await store.load_status(), self.view)

    async def take_turn(self, worker: str, run: str, number: int, tokens: int = 0, *, end: bool = True) -> None:
        """Begin an iteration of a run as a worker, and end it."""

        def take(uow: UnitOfWork) -> None:
            crew = uow.crews.get("night")
            crews.ensure_agent(uow, crew, worker, Role.WORKER)
            crews.open_run(uow, crew, run, worker=worker, task=None, project=".", spec="", options="{}")
            iterations.begin_iteration(uow, run, number, prompt_changed=False)
            if end:
                used: dict[str, Any] = {"tokens": tokens, "cost": 0, "spent": SECOND}
                iterations.end_iteration(uow, run, outcome="ended", failure=None, **used)
            else:
                iterations.record_usage(uow, uow.runs.get(run), tokens, 0)

        await self.write(take)


@pytest.fixture
async def crew(tmp_path: Path) -> AsyncIterator[Crew]:
    shopfloor = await asyncio.to_thread(Shopfloor, Settings(project=tmp_path))
    crew = Crew(shopfloor)

    def create(uow: UnitOfWork) -> None:
        epic = epics.create_epic(uow, "Files", "", None, None).id
        facts = {"title": "", "spec": "", "project": ".", "branch": "b", "base": "c", "options": "{}"}
        crews.create_crew(uow, "night", epic=epic, workers=2, **facts)

    await crew.write(create)
    yield crew
    await asyncio.to_thread(shopfloor.close)


async def test_tokens_of_a_turn_that_are_stored_already_count_once(crew: Crew):
    await crew.take_turn(ONE, "night.task-1", 0, tokens=600, end=False)
    driver = await crew.drive(tokens=1000)
    usage = Usage(estimate=600, stored_tokens=600)
    turn: Any = Turn(SimpleNamespace(usage=usage))
    driver._contexts[ONE] = turn
    assert await driver._find_exhausted_budget() is None
    usage.report_context(400, None)
    ending = await driver._find_exhausted_budget()
    assert ending is not None
    assert ending.reason.startswith(
        "the budget of 1000 tokens is used up (1000). Continue: shopfloor crew resume night"
    )


async def test_the_last_iteration_that_a_budget_allows_comes_to_its_end(crew: Crew):
    driver = await crew.drive(iterations=3)
    await crew.take_turn(ONE, "night.task-1", 0)
    assert await driver._admit_turn(ONE, "night.task-1", 1) is None
    await crew.take_turn(ONE, "night.task-1", 1, end=False)
    assert await driver._admit_turn(TWO, "night.task-2", 0) is None
    await crew.take_turn(TWO, "night.task-2", 0, end=False)
    for worker in (ONE, TWO):
        turn: Any = Turn()
        driver._contexts[worker] = turn
    # All three have begun. None is stopped in its middle, and one that is repeated is not counted twice.
    assert await driver._find_exhausted_budget() is None
    assert await driver._admit_turn(TWO, "night.task-2", 0) is None
    ending = await driver._admit_turn(ONE, "night.task-1", 2)
    assert ending is not None
    assert ending.reason == (
        "the budget of 3 iterations is used up. Continue: shopfloor crew resume night --iterations 6"
    )


async def test_a_worker_leaves_after_its_last_iteration(crew: Crew):
    driver = await crew.drive(worker_iterations=1)
    for worker, run in ((ONE, "night.task-1"), (TWO, "night.task-2")):
        assert await driver._admit_turn(worker, run, 0) is None
        await crew.take_turn(worker, run, 0, end=False)
        turn: Any = Turn()
        driver._contexts[worker] = turn
    assert crew.view.events == []
    ending = await driver._admit_turn(ONE, "night.task-1", 1)
    assert ending is not None
    assert ending.reason == f"the budget of {ONE} is used up"
    # The other one is still in the turn that its budget allows.
    assert [facts["worker"] for _, facts in crew.view.events] == [ONE]


async def test_a_worker_whose_tokens_are_used_up_is_stopped_in_its_turn_only(crew: Crew):
    driver = await crew.drive(worker_tokens=100)
    turns: dict[str, Any] = {ONE: Turn(), TWO: Turn(is_in_turn=False)}
    for worker in turns:
        await crew.take_turn(worker, f"{worker}.run", 0, tokens=150)
    driver._contexts.update(turns)
    assert await driver._find_exhausted_budget() is None
    assert turns[ONE].stops == [f"{ONE}: the budget of 100 tokens is used up (150)"]
    # Its turn is over: its work is verified and handed over.
    assert turns[TWO].stops == []


async def test_what_others_used_for_a_task_is_not_for_the_worker_that_continues_it(crew: Crew):
    driver = await crew.drive(worker_tokens=100, worker_iterations=2, tokens=200)
    for number in (0, 1):
        await crew.take_turn(ONE, "night.task-1", number, tokens=90)
    driver._budgets.take_over(await driver._store.load_board(), TWO, "night.task-1")
    await crew.take_turn(TWO, "night.task-1", 2, tokens=20)
    used = driver._budgets.count_usage(await driver._store.load_board())
    assert (used[TWO].iterations, used[TWO].tokens, used[TWO].seconds) == (1, 20, 1.0)
    # The crew has used all of it, and the first worker its part.
    ending = await driver._find_exhausted_budget(TWO, count_iterations=True)
    assert ending is not None
    assert ending.reason.startswith("the budget of 200 tokens is used up (200).")
    assert [facts["worker"] for _, facts in crew.view.events] == [ONE]


async def test_the_clock_of_a_crew_is_halted_while_all_its_agents_wait(crew: Crew, monkeypatch: pytest.MonkeyPatch):
    driver = await crew.drive(time=3600)
    turns: dict[str, Any] = {ONE: Turn(), TWO: Turn()}
    await crew.take_turn(ONE, "night.task-1", 0)
    await crew.take_turn(TWO, "night.task-2", 0)
    driver._contexts.update(turns)

    accounted, account = asyncio.Event(), driver._account

    async def record(*, halted: bool) -> None:
        await account(halted=halted)
        accounted.set()

    monkeypatch.setattr(driver, "_account", record)

    async def look() -> int | None:
        """Let the driver look once at leases and budgets; return since when its time counts in the store."""
        accounted.clear()
        looking = asyncio.create_task(driver._renew_leases())
        await accounted.wait()
        await cancel_task(looking)
        return (await driver._store.load_board()).crew.accounted_at

    with turns[ONE].clock:
        assert await look() is not None
        # As in a pause, or while both wait for a person or for a rate limit.
        with turns[TWO].clock:
            assert await look() is None
    assert await look() is not None
