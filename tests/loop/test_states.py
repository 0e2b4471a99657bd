"""The states of a run: a table of moves, one function each, and what each decides."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shopfloor.domain.loops import RunState, Wanted
from shopfloor.errors import AgentFailed
from shopfloor.runner import states
from shopfloor.runner.acp import Door
from shopfloor.runner.book import Book
from shopfloor.runner.drive import Drive, Ending
from shopfloor.runner.options import RunOptions
from shopfloor.runner.states import MOVES, STATES, At
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import loops
from tests.loop.support import AGENT, PATIENCE, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Seen:
    """A view that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def show(self, event: str, **facts: Any) -> None:
        self.events.append((event, facts))

    def names(self) -> list[str]:
        return [event for event, _ in self.events if event != "progress"]


@pytest.fixture
def shopfloor(tmp_path: Path) -> Iterator[Shopfloor]:
    with Shopfloor(Settings(project=tmp_path)) as shopfloor:
        shopfloor.floor.administer(lambda work: loops.create(work, "r", spec="spec", project="p", options="{}"))
        yield shopfloor


def drive_of(shopfloor: Shopfloor, behaviour: str = "good", **options: Any) -> Drive:
    command = (sys.executable, str(AGENT), behaviour)
    run, token = shopfloor.floor.administer(lambda work: loops.drive(work, "r", "{}"))
    return Drive(
        book=Book(shopfloor, "r"),
        run=run,
        options=RunOptions(agent=command, grace=1, handshake=PATIENCE, **options),
        settings=shopfloor.settings,
        template="{{iteration}}|{{extra}}|{{tasks}}",
        door=Door("http://127.0.0.1:1/mcp", token),
        shopfloor=shopfloor,
        view=Seen(),
    )


async def do(shopfloor: Shopfloor, fn: Any) -> Any:
    return await asyncio.to_thread(shopfloor.floor.administer, fn)


async def made(shopfloor: Shopfloor, behaviour: str = "good", **options: Any) -> Drive:
    return await asyncio.to_thread(drive_of, shopfloor, behaviour, **options)


def test_every_state_has_a_function_and_its_moves():
    assert set(STATES) == set(MOVES) == set(At) - {At.END}
    assert {to for moves in MOVES.values() for to in moves} == set(At) - {At.START}


def test_every_state_can_reach_the_end():
    reached = {At.END}
    while True:
        more = {at for at, moves in MOVES.items() if reached & set(moves)} - reached
        if not more:
            break
        reached |= more
    assert reached == set(At)


async def test_start_leads_between(shopfloor: Shopfloor):
    assert await states.start(await made(shopfloor)) is At.BETWEEN


async def test_between_starts_an_agent_when_there_is_none(shopfloor: Shopfloor):
    assert await states.between(await made(shopfloor)) is At.LAUNCH


async def test_between_heeds_a_stop(shopfloor: Shopfloor):
    drive = await made(shopfloor)
    await do(shopfloor, lambda work: loops.steer(work, "r", Wanted.STOP))
    assert await states.between(drive) is At.FINISH
    assert drive.ending is not None
    assert drive.ending.code == 6


async def test_between_heeds_a_stop_that_comes_while_it_looks_at_the_budgets(shopfloor: Shopfloor):
    drive = await made(shopfloor)

    class Interrupted(Book):
        async def next_number(self) -> int:
            drive.stop(0, "it was told to end")
            return await super().next_number()

    drive.book = Interrupted(shopfloor, "r")
    assert await states.between(drive) is At.FINISH
    assert drive.ending is not None
    assert (drive.ending.state, drive.ending.code) == (RunState.STOPPED, 0)


async def test_between_waits_while_paused(shopfloor: Shopfloor):
    drive = await made(shopfloor)
    await do(shopfloor, lambda work: loops.steer(work, "r", Wanted.PAUSE))
    waiting = asyncio.create_task(states.between(drive))
    await asyncio.to_thread(until, lambda: "paused" in drive.view.names())  # type: ignore[attr-defined]
    assert not waiting.done()
    await do(shopfloor, lambda work: loops.steer(work, "r", Wanted.GO))
    assert await waiting is At.LAUNCH


async def test_between_knows_the_budgets(shopfloor: Shopfloor):
    drive = await made(shopfloor, iterations=1)
    await do(shopfloor, lambda work: loops.begin_iteration(work, "r", 0, retold=False))
    await do(shopfloor, _ended)
    assert await states.between(drive) is At.FINISH
    assert drive.ending == Ending(
        RunState.STOPPED, 3, "the budget of 1 iterations is used up. Go on: shopfloor run --resume r --iterations 2"
    )


async def test_between_verifies_when_nothing_is_left_to_do(shopfloor: Shopfloor):
    drive = await made(shopfloor)
    await do(shopfloor, lambda work: loops.begin_iteration(work, "r", 0, retold=False))
    await do(shopfloor, lambda work: loops.add_tasks(work, "r", [loops.NewTask("a", "completed")]))
    await do(shopfloor, _ended)
    assert await states.between(drive) is At.VERIFY
    assert await states.verify(drive) is At.FINISH
    assert drive.ending is not None
    assert (drive.ending.state, drive.ending.code) == (RunState.COMPLETED, 0)
    assert "no acceptance command was set" in drive.ending.reason


async def test_a_blocked_task_without_any_command_is_not_done(shopfloor: Shopfloor):
    drive = await made(shopfloor)
    await do(shopfloor, lambda work: loops.begin_iteration(work, "r", 0, retold=False))
    await do(shopfloor, lambda work: loops.add_tasks(work, "r", [loops.NewTask("a", "blocked")]))
    await do(shopfloor, lambda work: loops.wish_completion(work, "r"))
    await do(shopfloor, _ended)
    assert await states.between(drive) is At.VERIFY
    assert await states.verify(drive) is At.BETWEEN
    assert drive.to_tell == ["The work was checked and is not done yet: TAS-1 is blocked"]
    assert await states.between(drive) is At.LAUNCH


async def test_between_changes_the_prompt_once_and_then_stops(shopfloor: Shopfloor):
    drive = await made(shopfloor, no_progress=2)
    for number in range(3):
        await do(shopfloor, lambda work, n=number: loops.begin_iteration(work, "r", n, retold=False))
        await do(shopfloor, _ended)
    assert await states.between(drive) is At.LAUNCH
    assert drive.retold == 2
    await do(shopfloor, lambda work: loops.begin_iteration(work, "r", 3, retold=True))
    await do(shopfloor, _ended)
    assert await states.between(drive) is At.FINISH
    assert drive.ending is not None
    assert (drive.ending.code, "no task has moved in 3 iterations" in drive.ending.reason) == (4, True)


async def test_launch_and_greet_make_an_agent_ready(shopfloor: Shopfloor):
    drive = await made(shopfloor)
    assert await states.launch(drive) is At.GREET
    assert await states.greet(drive) is At.PREPARE
    assert await states.prepare(drive) is At.OPEN
    assert drive.prompt.startswith("0|This is the planning iteration.")
    assert await states.open_session(drive) is At.TURN
    assert (await drive.book.run()).session == drive.session
    await drive.end_agent()


async def test_an_agent_that_dies_raises_and_recovers(shopfloor: Shopfloor):
    drive = await made(shopfloor, "dies_at_start")
    await states.launch(drive)
    with pytest.raises(AgentFailed, match="exit code 9"):
        await states.greet(drive)
    drive.failure = "it failed"
    assert await states.recover(drive) is At.BETWEEN
    assert (drive.agent, drive.launches) == (None, 1)


async def test_recover_closes_the_iteration_that_was_under_way(shopfloor: Shopfloor):
    drive = await made(shopfloor, "dies")
    drive.to_tell = ["The work was checked and is not done yet"]
    for state in (states.launch, states.greet, states.prepare, states.open_session):
        await state(drive)
    assert drive.to_tell == []
    with pytest.raises(AgentFailed) as failed:
        await states.turn(drive)
    drive.failure = failed.value.message
    assert await states.recover(drive) is At.CLOSE
    assert drive.to_tell == ["The work was checked and is not done yet"]
    assert await states.close(drive) is At.BETWEEN
    ended = await drive.book.iteration(0)
    assert ended is not None
    assert (ended.outcome, (ended.failure or "").splitlines()[0]) == (
        "failed", "the agent ended with exit code 3 during session/prompt",
    )  # fmt: skip


async def test_a_turn_that_takes_too_long_is_cancelled_and_the_next_prompt_says_so(shopfloor: Shopfloor):
    drive = await made(shopfloor, "hangs", iteration_time=0.05)
    for state in (states.launch, states.greet, states.prepare, states.open_session):
        await state(drive)
    assert await states.turn(drive) is At.CLOSE
    assert (drive.outcome, drive.failure) == ("out_of_time", "the iteration took too long")
    await states.close(drive)
    await states.prepare(drive)
    assert "The last iteration was ended after 0.05 s. Take a smaller step this time." in drive.prompt
    await drive.end_agent()


async def test_finish_ends_the_agent_and_writes_the_reason_down(shopfloor: Shopfloor):
    drive = await made(shopfloor)
    await states.launch(drive)
    drive.ending = Ending(RunState.STOPPED, 6, "enough")
    assert await states.finish(drive) is At.END
    run = await drive.book.run()
    assert (drive.agent, run.state, run.reason, run.process) == (None, RunState.STOPPED, "enough", None)


async def test_a_move_that_is_not_in_the_table_is_a_bug(shopfloor: Shopfloor, monkeypatch):
    async def astray(_: Drive) -> At:
        return At.TURN

    monkeypatch.setitem(STATES, At.START, astray)
    with pytest.raises(AssertionError, match="no move from start to turn"):
        await states.walk(await made(shopfloor))


def _ended(work: Any) -> None:
    loops.end_iteration(work, "r", outcome="ended", failure=None, tokens=0, cost=0, spent=0)
