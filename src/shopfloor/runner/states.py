"""The states of a run and the moves between them. One function per state; each says which one comes next.

    START ▶ BETWEEN ▶ LAUNCH ▶ GREET ▶ PREPARE ▶ OPEN ▶ TURN ▶ CLOSE ▶ BETWEEN ▶ … ▶ VERIFY ▶ FINISH ▶ END

Whatever the agent does wrong leads to RECOVER, which ends it and goes on from there. FINISH is reached from BETWEEN
and VERIFY alone, so that there is one place each that decides to stop and that stops.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

from shopfloor.domain.loops import RunState, Wanted, task_id
from shopfloor.domain.tasks import State
from shopfloor.errors import AgentFailed, ShopfloorError
from shopfloor.runner import acp, changes, prompt
from shopfloor.runner.budgets import Stopwatch, Usage, used_up, used_up_within
from shopfloor.runner.drive import Drive, Ending

LAUNCHES = 3
"""So often in a row an agent may fail to start."""

_TICK = 0.5


class At(StrEnum):
    """Where a run is."""

    START = "start"
    BETWEEN = "between"
    LAUNCH = "launch"
    GREET = "greet"
    PREPARE = "prepare"
    OPEN = "open"
    TURN = "turn"
    CLOSE = "close"
    VERIFY = "verify"
    RECOVER = "recover"
    FINISH = "finish"
    END = "end"


MOVES: dict[At, tuple[At, ...]] = {
    At.START: (At.BETWEEN,),
    At.BETWEEN: (At.VERIFY, At.LAUNCH, At.PREPARE, At.FINISH),
    At.LAUNCH: (At.GREET, At.RECOVER),
    At.GREET: (At.PREPARE, At.RECOVER),
    At.PREPARE: (At.OPEN,),
    At.OPEN: (At.TURN, At.RECOVER),
    At.TURN: (At.CLOSE, At.RECOVER),
    At.CLOSE: (At.BETWEEN,),
    At.VERIFY: (At.BETWEEN, At.FINISH),
    At.RECOVER: (At.CLOSE, At.BETWEEN),
    At.FINISH: (At.END,),
}


LEFT_AT_ONCE = {At.GREET: At.RECOVER, At.OPEN: At.RECOVER, At.VERIFY: At.BETWEEN}
"""States that may take long, and where they lead when the run is stopped meanwhile."""


async def walk(drive: Drive) -> Ending:
    """How the run ended, after walking from state to state."""
    at = At.START
    while at is not At.END:
        drive.at = at
        try:
            to = await (_unless_stopped(drive, at) if at in LEFT_AT_ONCE else STATES[at](drive))
        except AgentFailed as error:
            drive.failure, to = error.message, At.RECOVER
        assert to in MOVES[at], f"there is no move from {at} to {to}"
        at = to
    assert drive.ending is not None
    return drive.ending


async def _unless_stopped(drive: Drive, at: At) -> At:
    """The next state; when the run should come to an end, the one that leads there, without waiting for anything."""
    working = asyncio.ensure_future(STATES[at](drive))
    await asyncio.wait({working, drive.wakened()}, return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        return working.result()
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError, ShopfloorError):
        await working
    return LEFT_AT_ONCE[at]


async def start(drive: Drive) -> At:
    """The run is driven by this process; the project's own preparations are made."""
    drive.view.show("run_started", run=drive.name, iteration=drive.run.iteration, url=drive.door.url)
    await drive.hook("session_start")
    return At.BETWEEN


async def between(drive: Drive) -> At:
    """Whether to go on, and how."""
    await _pause(drive)
    if drive.ending is not None:
        return At.FINISH
    if await _verification_is_due(drive):
        return At.VERIFY
    if drive.ends_with(await _exhausted(drive) or await _standing_still(drive)):
        return At.FINISH
    if drive.agent is not None and drive.agent.child.alive:
        return At.PREPARE
    await drive.end_agent()
    return At.LAUNCH


async def _pause(drive: Drive) -> None:
    """Wait for as long as a person wants it."""
    drive.run = await drive.book.run()
    if drive.run.wanted is Wanted.PAUSE:
        drive.view.show("paused", run=drive.name)
    while drive.run.wanted is Wanted.PAUSE and drive.ending is None:
        mark = drive.book.mark()
        drive.run = await drive.book.run()
        if drive.run.wanted is Wanted.PAUSE:
            await drive.book.stirred(mark, _TICK)
    if drive.run.wanted is Wanted.STOP:
        drive.stop_as_asked()


async def _verification_is_due(drive: Drive) -> bool:
    """Once after each iteration in which the agent called it complete, or left nothing to do."""
    last = await drive.book.iteration(drive.run.iteration)
    if last is None or drive.verified_after == drive.run.iteration:
        return False
    if drive.run.wished_in is not None:
        return True
    tasks = await drive.book.tasks()
    return bool(tasks) and all(task.state in (State.COMPLETED, State.CANCELLED) for task in tasks)


async def _exhausted(drive: Drive) -> Ending | None:
    number = await drive.book.next_number()
    empty = used_up(drive.run, drive.options, number, Usage(), drive.unaccounted)
    return None if empty is None else Ending(RunState.STOPPED, 3, drive.how_to_go_on(empty.what, empty.more))


async def _standing_still(drive: Drive) -> Ending | None:
    """After some iterations without progress the prompt is changed once; if that does not help, the run stops."""
    limit = drive.options.no_progress
    still, still_retold = await drive.book.standstill()
    failed, failed_retold = await drive.book.repeated_failure()
    drive.retold = 0
    if failed >= limit and failed_retold:
        last = await drive.book.iteration(drive.run.iteration)
        assert last is not None
        code = 5 if last.outcome == "failed" else 4
        reason = f"the same failure came {failed} times: {last.failure}"
        return Ending(RunState.FAILED if code == 5 else RunState.STOPPED, code, drive.how_to_go_on(reason))
    if still >= limit and still_retold:
        return Ending(RunState.STOPPED, 4, drive.how_to_go_on(f"no task has moved in {still} iterations"))
    if max(still, failed) >= limit:
        drive.retold = max(still, failed)
    return None


async def launch(drive: Drive) -> At:
    """The agent's process runs."""
    assert drive.options.agent is not None
    drive.agent = await acp.start(
        drive.options.agent,
        drive.project,
        drive,
        handshake=drive.options.handshake,
        grace=drive.options.grace,
    )
    return At.GREET


async def greet(drive: Drive) -> At:
    """The agent has said who it is and what it can do."""
    assert drive.agent is not None
    await drive.agent.initialize()
    drive.launches = 0
    drive.view.show("agent_ready", run=drive.name, agent=drive.agent.name)
    return At.PREPARE


async def prepare(drive: Drive) -> At:
    """The iteration is under way in the store, and its prompt is written."""
    number = await drive.book.next_number()
    drive.iteration, drive.told = await drive.book.begin(number, retold=bool(drive.retold))
    drive.run = await drive.book.run()
    drive.usage, drive.watch, drive.outcome, drive.failure = Usage(), Stopwatch(), "ended", None
    drive.cancelling = False
    drive.view.show("iteration_started", run=drive.name, iteration=number, attempt=drive.iteration.attempts)
    drive.owed = list(drive.to_tell)
    await drive.hook("pre_iteration")
    if drive.options.commit:
        drive.before = await changes.dirty(drive.project)
    drive.prompt = prompt.fill(
        drive.template,
        {
            "session": drive.name,
            "iteration": str(number),
            "spec": drive.run.spec,
            "extra": "\n\n".join(await _extra(drive, number)),
            **await drive.book.material(),
        },
    )
    return At.OPEN


async def _extra(drive: Drive, number: int) -> list[str]:
    """What this prompt says beyond the usual."""
    assert drive.iteration is not None
    parts = [drive.options.extra] if drive.options.extra else []
    if number == 0 or not await drive.book.tasks():
        parts.append(prompt.PLAN)
    if drive.iteration.attempts > 1:
        parts.append(prompt.CUT_OFF)
    if drive.retold:
        parts.append(prompt.STANDSTILL.format(count=drive.retold))
    told, drive.to_tell = drive.to_tell, []
    return [*parts, *told, *prompt.words_of_others(drive.told, "factory" in drive.settings.run_toolsets)]


async def open_session(drive: Drive) -> At:
    """The agent has a session with the run's tools: a fresh one, or the one that was cut off."""
    assert drive.agent is not None and drive.iteration is not None
    known = drive.run.session if drive.iteration.attempts > 1 and drive.agent.can_load else None
    if known is None or not await drive.agent.load(known, drive.project, drive.door):
        known = await drive.agent.open(drive.project, drive.door)
    drive.session = known
    await drive.book.opened(known)
    return At.TURN


async def turn(drive: Drive) -> At:
    """The agent has worked until its turn ended, by itself or because its time was up."""
    assert drive.agent is not None and drive.session is not None
    agent = drive.agent
    answering = asyncio.create_task(agent.prompt(drive.session, drive.prompt))
    recording = asyncio.create_task(_record(drive, agent.prompted))
    try:
        drive.in_turn.set()
        while not answering.done():
            await asyncio.wait({answering, drive.wakened()}, timeout=_TICK, return_when=asyncio.FIRST_COMPLETED)
            drive.show_progress()
            reason = None if answering.done() else _interrupting(drive)
            if reason is not None:
                drive.outcome = reason
                await _cancel(drive, answering)
                return At.CLOSE
        _read_answer(drive, answering.result())
    finally:
        drive.in_turn.clear()
        answering.cancel()
        with contextlib.suppress(asyncio.CancelledError, ShopfloorError):
            await answering
        if not agent.prompted.is_set():
            recording.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await recording
    return At.CLOSE


async def _record(drive: Drive, prompted: asyncio.Event) -> None:
    """Write down what the prompt carries, once the agent has it."""
    assert drive.iteration is not None
    await prompted.wait()
    if drive.told.messages or drive.told.mails:
        await drive.book.told(drive.iteration.number, drive.told)


def _interrupting(drive: Drive) -> str | None:
    """Why the turn must end now, if it must."""
    if drive.ending is not None:
        return "cancelled"
    if drive.watch.seconds >= drive.options.iteration_time:
        drive.failure = "the iteration took too long"
        drive.to_tell.append(
            f"The last iteration was ended after {drive.options.iteration_time:g} s. Take a smaller step this time."
        )
        return "out_of_time"
    exhausted = used_up_within(drive.run, drive.options, drive.usage, drive.unaccounted)
    return None if exhausted is None else "out_of_budget"


async def _cancel(drive: Drive, answering: asyncio.Task[Any]) -> None:
    """Ask the agent to stop; one that does not is ended. Whatever it answers now counts as cancelled."""
    assert drive.agent is not None and drive.session is not None
    drive.cancelling = True
    await drive.agent.cancel(drive.session)
    done, _ = await asyncio.wait({answering}, timeout=drive.options.grace)
    if not done:
        await drive.end_agent()


def _read_answer(drive: Drive, answer: dict[str, Any]) -> None:
    usage = answer.get("usage")
    if isinstance(usage, dict):
        drive.usage.report(usage.get("totalTokens"), None)
    reason = str(answer.get("stopReason"))
    if reason in ("max_tokens", "max_turn_requests", "refusal", "cancelled"):
        drive.outcome, drive.failure = reason, f"the agent stopped early: {reason}"
        drive.to_tell.append(f"The last iteration ended early ({reason}). Take a smaller step this time.")


async def recover(drive: Drive) -> At:
    """What went wrong is written down and the agent's process is gone."""
    stopped = drive.ending is not None and drive.failure is None
    failure = drive.failure or "the agent failed"
    await drive.end_agent()
    if not stopped:
        drive.view.show("agent_failed", run=drive.name, failure=failure)
        await drive.hook("on_error", failure=failure)
    if drive.iteration is not None:
        drive.outcome = "cancelled" if stopped else "failed"
        drive.to_tell = [*drive.owed, *drive.to_tell]  # this agent made nothing of it; the next one is told again
        return At.CLOSE
    if stopped:
        return At.BETWEEN
    drive.launches += 1
    if drive.launches >= LAUNCHES:
        drive.ending = drive.ending or Ending(RunState.FAILED, 5, drive.how_to_go_on(failure))
    else:
        await asyncio.sleep(0.2 * 2**drive.launches)
    return At.BETWEEN


async def close(drive: Drive) -> At:
    """The iteration is at its end in the store, and the project has been told."""
    assert drive.iteration is not None
    number = drive.iteration.number
    await _hooks_of_completed(drive)
    await drive.book.close(
        outcome=drive.outcome,
        failure=drive.failure,
        tokens=drive.usage.tokens,
        cost=drive.usage.cost,
        spent=drive.account(),
    )
    drive.view.show(
        "iteration_ended", run=drive.name, iteration=number, outcome=drive.outcome, failure=drive.failure,
        tokens=drive.usage.tokens,
    )  # fmt: skip
    if drive.outcome != "failed" and drive.failure is not None:
        await drive.hook("on_error", failure=drive.failure)
    await drive.hook("post_iteration", outcome=drive.outcome)
    if drive.options.commit:
        await _commit(drive, number)
    drive.iteration = None
    return At.BETWEEN


async def _hooks_of_completed(drive: Drive) -> None:
    assert drive.iteration is not None
    for task in await drive.book.completed_since(drive.iteration.started_at):
        drive.view.show("task_completed", run=drive.name, task=task_id(task.number), content=task.title)
        await drive.hook("on_task_complete", task=task_id(task.number), content=task.title)


async def _commit(drive: Drive, number: int) -> None:
    ended = await drive.book.iteration(number)
    summary = (ended.summary if ended else None) or "without a summary"
    try:
        files = await changes.commit(drive.project, drive.before, f"{drive.name}: iteration {number}\n\n{summary}\n")
    except ShopfloorError as error:
        drive.view.show("commit_failed", run=drive.name, iteration=number, failure=error.message)
        return
    if files:
        drive.view.show("committed", run=drive.name, iteration=number, files=files)


async def verify(drive: Drive) -> At:
    """The work has been judged, with nobody working on it."""
    drive.verified_after = drive.run.iteration
    verdict = await drive.judge()
    if verdict is None:
        drive.ending = drive.ending or Ending(RunState.COMPLETED, 0, await drive.praise())
        return At.FINISH
    drive.view.show("not_verified", run=drive.name, verdict=verdict)
    drive.to_tell.append(f"The work was checked and is not done yet: {verdict}")
    await drive.book.fail(drive.run.iteration, f"not verified: {verdict.splitlines()[0]}")
    return At.BETWEEN


async def finish(drive: Drive) -> At:
    """The agent is gone, and the store knows how the run ended and why."""
    assert drive.ending is not None
    await drive.end_agent()
    await drive.hook("session_end", state=drive.ending.state.value, reason=drive.ending.reason)
    await drive.book.finish(drive.ending.state, drive.ending.reason)
    drive.view.show(
        "run_ended", run=drive.name, state=drive.ending.state.value, exit=drive.ending.code, reason=drive.ending.reason
    )
    return At.END


STATES: dict[At, Callable[[Drive], Awaitable[At]]] = {
    At.START: start,
    At.BETWEEN: between,
    At.LAUNCH: launch,
    At.GREET: greet,
    At.PREPARE: prepare,
    At.OPEN: open_session,
    At.TURN: turn,
    At.CLOSE: close,
    At.VERIFY: verify,
    At.RECOVER: recover,
    At.FINISH: finish,
}
