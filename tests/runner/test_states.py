"""The states of a run: the table of transitions, and the function of each state."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shopfloor.domain.runs import RunSnapshot, RunState, Wanted
from shopfloor.errors import AgentFailed
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.runner import states
from shopfloor.runner.acp import McpServerRef
from shopfloor.runner.context import Ending, RunContext
from shopfloor.runner.moves import MOVES, State
from shopfloor.runner.options import RunOptions
from shopfloor.runner.run_store import RunStore
from shopfloor.runner.specification_work import SpecificationWork
from shopfloor.runner.states import STATES
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import iterations, run_tasks, runs
from tests.operator_access import write_as_operator
from tests.runner.support import AGENT, PATIENCE, RecordingView, wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def shopfloor(tmp_path: Path) -> Iterator[Shopfloor]:
    with Shopfloor(Settings(project=tmp_path)) as shopfloor:
        write_as_operator(shopfloor, lambda uow: runs.create_run(uow, "r", spec="spec", project="p", options="{}"))
        yield shopfloor


async def new_context(shopfloor: Shopfloor, behaviour: str = "good", **options: Any) -> RunContext:
    store = RunStore(shopfloor, "r")
    run, token = await store.drive("{}", None)
    return RunContext(
        store=store,
        run=run,
        options=RunOptions(agent=(sys.executable, str(AGENT), behaviour), grace=1, handshake=PATIENCE, **options),
        settings=shopfloor.settings,
        work=SpecificationWork("{{iteration}}|{{extra}}|{{tasks}}"),
        mcp_server=McpServerRef("http://127.0.0.1:1/mcp", token),
        view=RecordingView(),
    )


async def write(shopfloor: Shopfloor, fn: Any) -> Any:
    return await asyncio.to_thread(write_as_operator, shopfloor, fn)


async def pass_iterations(shopfloor: Shopfloor, *numbers: int, prompt_changed: bool = False) -> None:
    def pass_iteration(uow: UnitOfWork, number: int) -> None:
        iterations.begin_iteration(uow, "r", number, prompt_changed=prompt_changed)
        iterations.end_iteration(uow, "r", outcome="ended", failure=None, tokens=0, cost=0, spent=0)

    for number in numbers:
        await write(shopfloor, lambda uow, number=number: pass_iteration(uow, number))


def test_every_state_has_a_function_and_moves():
    assert set(STATES) == set(MOVES) == set(State) - {State.END}
    assert {to for moves in MOVES.values() for to in moves} == set(State) - {State.START}


def test_every_state_can_reach_the_end():
    reached = {State.END}
    while more := {state for state, moves in MOVES.items() if reached & set(moves)} - reached:
        reached |= more
    assert reached == set(State)


async def test_start_leads_to_decide(shopfloor: Shopfloor):
    assert await states.start_run(await new_context(shopfloor)) is State.DECIDE


async def test_decide_launches_an_agent_when_there_is_none(shopfloor: Shopfloor):
    assert await states.decide_next(await new_context(shopfloor)) is State.LAUNCH


async def test_decide_ends_the_run_on_a_stop(shopfloor: Shopfloor):
    context = await new_context(shopfloor)
    await write(shopfloor, lambda uow: runs.steer_run(uow, "r", Wanted.STOP))
    assert await states.decide_next(context) is State.FINISH
    assert context.ending is not None
    assert context.ending.code == 6


async def test_decide_ends_the_run_on_a_signal_that_arrives_while_it_reads(shopfloor: Shopfloor):
    context = await new_context(shopfloor)

    class Interrupted(RunStore):
        async def load_snapshot(self) -> RunSnapshot:
            context.stop(0, "it was terminated")
            return await super().load_snapshot()

    context.store = Interrupted(shopfloor, "r")
    assert await states.decide_next(context) is State.FINISH
    assert context.ending is not None
    assert (context.ending.state, context.ending.code) == (RunState.STOPPED, 0)


async def test_decide_waits_while_the_run_is_paused(shopfloor: Shopfloor):
    context = await new_context(shopfloor)
    await write(shopfloor, lambda uow: runs.steer_run(uow, "r", Wanted.PAUSE))
    waiting = asyncio.create_task(states.decide_next(context))
    await asyncio.to_thread(wait_until, lambda: "paused" in context.view.list_names())  # type: ignore[attr-defined]
    assert not waiting.done()
    await write(shopfloor, lambda uow: runs.steer_run(uow, "r", Wanted.GO))
    assert await waiting is State.LAUNCH


async def test_a_signal_ends_a_pause(shopfloor: Shopfloor):
    context = await new_context(shopfloor)
    await write(shopfloor, lambda uow: runs.steer_run(uow, "r", Wanted.PAUSE))
    waiting = asyncio.create_task(states.decide_next(context))
    await asyncio.to_thread(wait_until, lambda: "paused" in context.view.list_names())  # type: ignore[attr-defined]
    context.stop(0, "it was terminated")
    assert await waiting is State.FINISH


async def test_decide_enforces_the_budgets(shopfloor: Shopfloor):
    context = await new_context(shopfloor, iterations=1)
    await pass_iterations(shopfloor, 0)
    assert await states.decide_next(context) is State.FINISH
    reason = "the budget of 1 iteration is used up. Continue: shopfloor run --resume r --iterations 2"
    assert context.ending == Ending(RunState.STOPPED, 3, reason)


async def test_a_message_after_the_last_allowed_iteration_adds_one_and_no_more(shopfloor: Shopfloor):
    context = await new_context(shopfloor, iterations=1)
    await pass_iterations(shopfloor, 0)
    await write(shopfloor, lambda uow: runs.send_message(uow, "r", "Use blue"))
    assert await states.decide_next(context) is State.LAUNCH
    await pass_iterations(shopfloor, 1)
    assert await states.decide_next(context) is State.FINISH
    assert context.ending is not None
    assert context.ending.code == 3


async def test_decide_waits_for_a_rate_limit_that_another_agent_has_hit(shopfloor: Shopfloor):
    context = await new_context(shopfloor)
    context.rate_limit_pool.extend(3600)
    assert await states.decide_next(context) is State.WAIT
    assert context.wait is not None
    assert (context.wait.reason, 3500 < context.wait.seconds <= 3600) == ("the provider's rate limit", True)


async def test_decide_verifies_when_no_task_is_left(shopfloor: Shopfloor):
    context = await new_context(shopfloor)
    await write(shopfloor, lambda uow: run_tasks.add_tasks(uow, "r", [run_tasks.NewTask("a", "completed")]))
    await pass_iterations(shopfloor, 0)
    assert await states.decide_next(context) is State.VERIFY
    assert await states.verify_work(context) is State.FINISH
    assert context.ending is not None
    assert (context.ending.state, context.ending.code) == (RunState.COMPLETED, 0)
    assert "no acceptance command was set" in context.ending.reason


async def test_a_blocked_task_without_any_command_is_not_done(shopfloor: Shopfloor):
    context = await new_context(shopfloor)
    await write(shopfloor, lambda uow: iterations.begin_iteration(uow, "r", 0, prompt_changed=False))
    await write(shopfloor, lambda uow: run_tasks.add_tasks(uow, "r", [run_tasks.NewTask("a", "blocked")]))
    await write(shopfloor, lambda uow: runs.request_completion(uow, "r"))
    assert await states.decide_next(context) is State.VERIFY
    assert await states.verify_work(context) is State.DECIDE
    assert context.prompt_extras == ["The work was checked and is not done yet: TAS-1 is blocked"]
    assert await states.decide_next(context) is State.LAUNCH


async def test_decide_changes_the_prompt_once_and_then_stops(shopfloor: Shopfloor):
    context = await new_context(shopfloor, no_progress=2)
    await write(shopfloor, lambda uow: run_tasks.add_tasks(uow, "r", [run_tasks.NewTask("a")]))
    await pass_iterations(shopfloor, 0, 1, 2)
    assert await states.decide_next(context) is State.LAUNCH
    assert context.prompt_changed == 2
    await pass_iterations(shopfloor, 3, prompt_changed=True)
    # To resume a run is to try again: it ends only after an iteration of this process.
    assert await states.decide_next(context) is State.LAUNCH
    context.has_begun = True
    assert await states.decide_next(context) is State.FINISH
    assert context.ending is not None
    assert (context.ending.code, "no task has moved in 3 iterations" in context.ending.reason) == (4, True)


async def test_launch_and_initialize_make_an_agent_ready(shopfloor: Shopfloor):
    context = await new_context(shopfloor)
    assert await states.launch_agent(context) is State.INITIALIZE
    assert await states.initialize_agent(context) is State.PREPARE
    assert await states.prepare_iteration(context) is State.OPEN
    assert context.current is not None
    assert context.current.prompt.startswith("0|This is the planning iteration.")
    assert await states.open_session(context) is State.TURN
    assert (await context.store.load_snapshot()).run.session == context.current.session
    await context.end_agent()


async def test_an_agent_that_dies_is_recovered_from(shopfloor: Shopfloor):
    context = await new_context(shopfloor, "dies_at_start")
    await states.launch_agent(context)
    with pytest.raises(AgentFailed, match="exit code 9"):
        await states.initialize_agent(context)
    context.failure = "it failed"
    assert await states.recover_run(context) is State.DECIDE
    assert (context.agent, context.launches) == (None, 1)


async def test_recover_closes_the_iteration_in_progress_and_repeats_its_extras(shopfloor: Shopfloor):
    context = await new_context(shopfloor, "dies")
    context.prompt_extras = ["The work was checked and is not done yet"]
    for state in (states.launch_agent, states.initialize_agent, states.prepare_iteration, states.open_session):
        await state(context)
    assert context.prompt_extras == []
    with pytest.raises(AgentFailed) as failed:
        await states.run_turn(context)
    context.failure = failed.value.message
    assert await states.recover_run(context) is State.CLOSE
    assert context.prompt_extras == ["The work was checked and is not done yet"]
    assert await states.close_iteration(context) is State.DECIDE
    ended = (await context.store.load_snapshot()).last_iteration
    assert ended is not None
    assert ended.outcome == "failed"
    assert (ended.failure or "").splitlines()[0] == "the agent ended with exit code 3 during session/prompt"


async def test_turn_over_its_time_limit_is_cancelled_and_the_next_prompt_reports_it(shopfloor: Shopfloor):
    context = await new_context(shopfloor, "hangs", iteration_time=0.05)
    for state in (states.launch_agent, states.initialize_agent, states.prepare_iteration, states.open_session):
        await state(context)
    assert await states.run_turn(context) is State.CLOSE
    assert context.current is not None
    assert (context.current.outcome, context.current.failure) == ("out_of_time", "the iteration took too long")
    await states.close_iteration(context)
    await states.prepare_iteration(context)
    assert "The last iteration was ended after 0.05 s. Take a smaller step this time." in context.current.prompt
    await context.end_agent()


async def test_finish_ends_the_agent_and_records_the_reason(shopfloor: Shopfloor):
    context = await new_context(shopfloor)
    await states.launch_agent(context)
    context.ending = Ending(RunState.STOPPED, 6, "enough")
    assert await states.finish_run(context) is State.END
    run = (await context.store.load_snapshot()).run
    assert (context.agent, run.state, run.reason, run.process) == (None, RunState.STOPPED, "enough", None)


async def test_a_move_that_is_not_in_the_table_is_a_bug(shopfloor: Shopfloor, monkeypatch: pytest.MonkeyPatch):
    async def go_astray(_: RunContext) -> State:
        return State.TURN

    monkeypatch.setitem(STATES, State.START, go_astray)
    with pytest.raises(AssertionError, match="no move from start to turn"):
        await states.run(await new_context(shopfloor))
