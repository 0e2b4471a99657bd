"""The states of a run and the moves between them. One function per state; each returns the next state.

    START ▶ DECIDE ▶ LAUNCH ▶ INITIALIZE ▶ PREPARE ▶ OPEN ▶ TURN ▶ CLOSE ▶ DECIDE ▶ … ▶ VERIFY ▶ FINISH ▶ END

A failure of the agent leads to RECOVER, which ends the agent and closes its iteration. WAIT uses no budget: it waits for
a rate limit to end, for a person's answer, or before another attempt. Only DECIDE and VERIFY lead to FINISH, so that
one place decides to stop and one place stops. The work (`work.py`) defines the agent's goal and when it is reached: the
same states drive the agent of a run and those of a crew.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from shopfloor.domain.runs import RunSnapshot, RunState, RunStatus, Wanted, format_task_id
from shopfloor.errors import AgentFailed, ShopfloorError
from shopfloor.runner import acp, git, prompt, session_settings
from shopfloor.runner.budgets import Usage, find_exhausted, find_exhausted_within
from shopfloor.runner.context import (
    AGENT_FAILED,
    ALERT_CODES,
    BUDGET_EXHAUSTED,
    NOT_ANSWERED,
    CurrentIteration,
    Ending,
    RunContext,
    Wait,
    cancel_task,
)
from shopfloor.runner.host import RunHost
from shopfloor.runner.moves import INTERRUPTIBLE, MOVES, State
from shopfloor.runner.rate_limits import MAX_PAUSE_SECONDS, RateLimit, find_rate_limit
from shopfloor.runner.run_store import WAIT_SECONDS

MAX_LAUNCHES = 3
"""How many times in a row an agent may fail to start."""

MAX_TURNS_WITHOUT_TOOLS = 2
"""How many turns in a row an agent may end without connecting to its tools."""

_RATE_LIMIT = "the provider's rate limit"
_TICK_SECONDS = 0.5
_BACKOFF_SECONDS = 0.2
_MAX_BACKOFF_SECONDS = 60.0


async def run(context: RunContext) -> Ending:
    """Go from state to state until the end, and return the ending of the run."""
    state = State.START
    while state is not State.END:
        context.state = state
        try:
            following = await (_run_interruptible if state in INTERRUPTIBLE else _run_state)(context, state)
        except AgentFailed as error:
            context.failure, following = error.message, State.RECOVER
        assert following in MOVES[state], f"there is no move from {state} to {following}"
        state = following
    assert context.ending is not None
    return context.ending


async def _run_state(context: RunContext, state: State) -> State:
    return await STATES[state](context)


async def _run_interruptible(context: RunContext, state: State) -> State:
    """Run a state; if the run is stopped, cancel the state and go to the one that follows a stop."""
    running = asyncio.create_task(_run_state(context, state))
    try:
        await asyncio.wait({running, context.stop_task()}, return_when=asyncio.FIRST_COMPLETED)
        return running.result() if running.done() else INTERRUPTIBLE[state]
    finally:
        await cancel_task(running)


async def start_run(context: RunContext) -> State:
    """Show that the run started, run the project's own preparations, and prepare the work."""
    context.view.show("run_started", run=context.name, iteration=context.run.iteration, url=context.mcp_server.url)
    await context.run_hooks("session_start")
    await context.work.begin(context)
    return State.DECIDE


async def decide_next(context: RunContext) -> State:
    """Decide whether the run continues, and how."""
    snapshot = await context.store.load_snapshot()
    if snapshot.run.wanted is Wanted.PAUSE and context.ending is None:
        await _wait_while_paused(context)
        snapshot = await context.store.load_snapshot()
    context.run = snapshot.run
    if snapshot.run.wanted is Wanted.STOP:
        context.stop_for_person()
    if context.ending is not None:
        return State.FINISH
    if context.wait is not None:
        return State.WAIT
    if context.work.needs_verification(context, snapshot):
        return State.VERIFY
    obstacle = await _find_obstacle(context, snapshot)
    if isinstance(obstacle, Wait):
        context.wait = obstacle
        return State.WAIT
    # set_ending, not an assignment: a signal during the await above has set an ending, and the first one counts.
    if context.set_ending(obstacle):
        return State.FINISH
    if context.agent is not None and context.agent.child.is_alive:
        return State.PREPARE
    await context.end_agent()
    return State.LAUNCH


async def _find_obstacle(context: RunContext, snapshot: RunSnapshot) -> Wait | Ending | None:
    """Return what keeps the agent from another turn: a budget, the work itself, or its provider's rate limit."""
    # Text that arrived in the last allowed iteration earns one more: it may be all that is left to do.
    begun = snapshot.next_number - snapshot.has_unread
    budget = find_exhausted(context.run, context.options, begun, Usage(), context.unaccounted)
    if budget is not None:
        return Ending(RunState.STOPPED, BUDGET_EXHAUSTED, context.budget_hint(budget))
    obstacle = await context.work.find_obstacle(context, snapshot)
    # Another agent of the crew may have hit the limit: the same request would fail too.
    if obstacle is None and (seconds := context.rate_limit_pool.seconds):
        return Wait(_RATE_LIMIT, seconds)
    return obstacle


async def _wait_while_paused(context: RunContext) -> None:
    """Wait until a person continues or stops the run, or a signal ends it."""
    context.view.show("paused", run=context.name)
    with context.clock:
        await _wait_while(context, lambda status: status.wanted is Wanted.PAUSE, None)


async def _wait_while(context: RunContext, condition: Callable[[RunStatus], bool], seconds: float | None) -> bool:
    """Wait while the condition holds for the status of the run; return False if the time is up."""
    deadline = None if seconds is None else time.monotonic() + seconds
    status = await context.store.wait_for_change()
    while condition(status) and context.ending is None:
        left = WAIT_SECONDS if deadline is None else min(WAIT_SECONDS, deadline - time.monotonic())
        if left <= 0:
            return False
        waiting = asyncio.create_task(context.store.wait_for_change(status.version, left))
        try:
            await asyncio.wait({waiting, context.stop_task()}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                return True
            status = waiting.result()
        finally:
            await cancel_task(waiting)
    return True


async def wait_for_others(context: RunContext) -> State:
    """Wait for a rate limit to end, for a person's answer, or before another attempt. No budget is used."""
    assert context.wait is not None
    wait, context.wait = context.wait, None
    await context.begin_waiting(wait.reason, wait.seconds)
    with context.clock:
        if wait.for_answer:
            # An agent that idles for hours holds memory and connections for nothing.
            await context.end_agent()
            answered = await _wait_while(context, _is_unanswered, wait.seconds)
        else:
            await asyncio.wait({context.stop_task()}, timeout=wait.seconds)
            answered = True
    await context.store.set_waiting(None)
    if not answered:
        reason = context.resume_hint(f"{wait.reason} did not arrive within {wait.seconds:g} s")
        context.set_ending(Ending(RunState.UNANSWERED, NOT_ANSWERED, reason))
    return State.DECIDE


def _is_unanswered(status: RunStatus) -> bool:
    asked = any(request.kind == "stuck" for request in status.requests)
    return asked and status.wanted is Wanted.GO and not status.has_unread


async def launch_agent(context: RunContext) -> State:
    """Start the agent's process."""
    assert context.options.agent is not None
    context.requests_at_launch = context.store.agent_requests
    context.agent = await acp.start_agent(
        context.options.agent,
        context.project,
        RunHost(context),
        context.mcp_server,
        handshake_timeout=context.options.handshake,
        grace=context.options.grace,
    )
    return State.INITIALIZE


async def initialize_agent(context: RunContext) -> State:
    """Perform the handshake with the agent."""
    assert context.agent is not None
    await context.agent.initialize()
    context.launches = 0
    context.view.show("agent_ready", run=context.name, agent=context.agent.name)
    return State.PREPARE


async def prepare_iteration(context: RunContext) -> State:
    """Begin the iteration in the store and write its prompt."""
    begun = await context.store.begin_iteration(prompt_changed=bool(context.prompt_changed))
    context.run, number, context.has_begun = begun.run, begun.iteration.number, True
    context.view.show("iteration_started", run=context.name, iteration=number, attempt=begun.iteration.attempts)
    # Before the hooks: their output is produced again with every attempt, and would otherwise be in the prompt twice.
    unacknowledged_extras = list(context.prompt_extras)
    await context.run_hooks("pre_iteration")
    dirty_before = begun.dirty_before
    if dirty_before is None:
        dirty_before = await git.find_dirty_files(context.project) if context.options.commit else {}
        # Stored before the agent starts: after a kill or a failed commit, its changes still count as the agent's.
        if context.options.commit:
            await context.store.set_dirty_files(number, dirty_before)
    extras = []
    if begun.iteration.attempts > 1:
        extras.append(prompt.CUT_OFF)
    if context.prompt_changed:
        extras.append(prompt.STANDSTILL.format(count=context.prompt_changed))
    extras += context.prompt_extras
    context.prompt_extras = []
    extras += prompt.format_inbound(begun.inbound, "factory" in context.settings.run_toolsets)
    context.current = CurrentIteration(
        iteration=begun.iteration,
        prompt=await context.work.write_prompt(context, begun, extras),
        inbound=begun.inbound,
        unacknowledged_extras=unacknowledged_extras,
        dirty_before=dirty_before,
    )
    return State.OPEN


async def open_session(context: RunContext) -> State:
    """Open a session with the run's tools: a new one, or the one that was cut off."""
    assert context.agent is not None and context.current is not None
    cut_off = context.current.iteration.attempts > 1
    session = context.run.session if cut_off and context.agent.can_load else None
    if session is None or not await context.agent.load_session(session, context.project, context.mcp_server):
        session = await context.agent.open_session(context.project, context.mcp_server)
    context.current.session = session
    await context.store.set_session(session)
    problem = await session_settings.apply_settings(
        context.agent, session, context.options.get_session_settings(context.current.number), context.view, context.name
    )
    if problem is None:
        return State.TURN
    context.set_ending(Ending(RunState.FAILED, AGENT_FAILED, context.resume_hint(problem, "--model M --mode M")))
    return State.RECOVER


async def run_turn(context: RunContext) -> State:
    """Send the prompt and let the agent work until its turn ends or must end."""
    assert context.current is not None
    current = context.current
    await context.recorder.begin_session(current.session, current.number, current.prompt)
    async with context.recorder.flushing(context.store_usage):
        return await _prompt_agent(context)


async def _prompt_agent(context: RunContext) -> State:
    assert context.agent is not None and context.current is not None
    agent, current = context.agent, context.current
    responding = asyncio.create_task(agent.prompt(current.session, current.prompt))

    async def record_prompt_delivery() -> None:
        # Others' texts count as delivered once the prompt is written, not when it is built: if an agent dies before
        # that, the texts must be sent again.
        await agent.prompted.wait()
        if current.inbound.messages or current.inbound.mails:
            await context.store.record_prompt_delivery(current.number, current.inbound)

    recording = asyncio.create_task(record_prompt_delivery())
    try:
        context.begin_turn()
        while not responding.done():
            await asyncio.wait(
                {responding, context.stop_task()}, timeout=_TICK_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            context.show_progress()
            if not responding.done() and _set_interruption(context):
                # Ask the agent to stop, and end it if it does not. Its response no longer matters.
                context.end_turn()
                await agent.cancel_turn(current.session)
                done, _ = await asyncio.wait({responding}, timeout=context.options.grace)
                if not done:
                    await context.end_agent()
                return State.CLOSE
        _read_response(context, responding.result())
        await _check_tools_found(context)
    finally:
        context.end_turn()
        await cancel_task(responding)
        # Not cancelled once the prompt was sent: otherwise its texts would be in the next prompt again.
        if not agent.prompted.is_set():
            recording.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await recording
    return State.CLOSE


async def _check_tools_found(context: RunContext) -> None:
    """Report a turn without a single request to the run's server; end the run if it happens again.

    Without tools an agent can plan nothing, and every further iteration would be wasted as well.
    """
    assert context.current is not None
    if context.current.outcome != "ended" or context.store.agent_requests > context.requests_at_launch:
        context.turns_without_tools = 0
        return
    why = f"the agent has not connected to its tools at {context.mcp_server.url}"
    context.current.outcome, context.current.failure = "without_tools", why
    context.turns_without_tools += 1
    context.view.show("tools_not_listed", run=context.name, why=why)
    # On a busy machine, the agent may have started its turn before its tools were available, so a new process gets
    # another try.
    await context.end_agent()
    if context.turns_without_tools >= MAX_TURNS_WITHOUT_TOOLS:
        why += "; check that it may use MCP servers in this folder (gemini: --skip-trust, or trust the folder)"
        context.set_ending(Ending(RunState.FAILED, AGENT_FAILED, context.resume_hint(why)))


def _set_interruption(context: RunContext) -> bool:
    """Set the outcome of a turn that must end now; return whether it must."""
    assert context.current is not None
    current, options = context.current, context.options
    if context.ending is not None:
        current.outcome = "cancelled"
    elif current.watch.seconds >= options.iteration_time:
        current.outcome, current.failure = "out_of_time", "the iteration took too long"
        context.prompt_extras.append(
            f"The last iteration was ended after {options.iteration_time:g} s. Take a smaller step this time."
        )
    elif find_exhausted_within(context.run, options, current.usage, context.unaccounted) is not None:
        current.outcome = "out_of_budget"
    else:
        return False
    return True


def _read_response(context: RunContext, response: dict[str, Any]) -> None:
    assert context.current is not None
    context.failures = context.rate_limits = 0
    usage = response.get("usage")
    if isinstance(usage, dict):
        context.current.usage.report_billed(usage.get("totalTokens"))
    reason = str(response.get("stopReason"))
    if reason in ("max_tokens", "max_turn_requests", "refusal", "cancelled"):
        context.current.outcome, context.current.failure = reason, f"the agent stopped early: {reason}"
        context.prompt_extras.append(f"The last iteration ended early ({reason}). Take a smaller step this time.")


async def recover_run(context: RunContext) -> State:
    """End the agent after a failure or a stop, and decide what happens to its iteration."""
    failure, context.failure = context.failure, None
    stopped = context.ending is not None and failure is None
    failure = failure or "the agent failed"
    await context.end_agent()
    if not stopped:
        context.view.show("agent_failed", run=context.name, failure=failure)
        await context.run_hooks("on_error", failure=failure)
    limit = None if stopped else find_rate_limit(failure, datetime.now(UTC))
    if limit is not None:
        _wait_for_rate_limit(context, limit)
    if context.current is not None:
        context.current.outcome = "cancelled" if stopped else "failed" if limit is None else "rate_limited"
        context.current.failure = None if stopped else failure
        if context.current.outcome == "failed":
            _back_off(context, context.failures)
            context.failures += 1
        # The agent died before it acted on a verdict or a hook's output in its prompt: repeat it in the next prompt.
        context.prompt_extras = [*context.current.unacknowledged_extras, *context.prompt_extras]
        return State.CLOSE
    if stopped or limit is not None:
        return State.DECIDE
    context.launches += 1
    context.launch_failure = f"the agent cannot be started: {failure}"
    if context.launches >= MAX_LAUNCHES:
        context.set_ending(Ending(RunState.FAILED, AGENT_FAILED, context.resume_hint(failure)))
    else:
        _back_off(context, context.launches)
    return State.DECIDE


def _back_off(context: RunContext, times: int) -> None:
    """Wait before the next attempt, twice as long after each failure."""
    seconds = min(_BACKOFF_SECONDS * 2**times, _MAX_BACKOFF_SECONDS)
    context.wait = Wait("another attempt after a failure", seconds)


def _wait_for_rate_limit(context: RunContext, limit: RateLimit) -> None:
    """Wait until the provider's limit ends; if that is unknown, twice as long each time."""
    pause = min(context.options.rate_limit_pause * 2**context.rate_limits, MAX_PAUSE_SECONDS)
    context.rate_limits += 1
    context.wait = Wait(_RATE_LIMIT, pause if limit.seconds is None else limit.seconds)
    context.rate_limit_pool.extend(context.wait.seconds)


async def close_iteration(context: RunContext) -> State:
    """End the iteration in the store, run the project's hooks, and commit the changes."""
    assert context.current is not None
    current = context.current
    for task in await context.store.list_completed_tasks(current.iteration.started_at):
        facts = {"task": format_task_id(task.number), "content": task.title}
        context.view.show("task_completed", run=context.name, **facts)
        await context.run_hooks("on_task_complete", **facts)
    tokens, cost = current.usage.take_unstored()
    ended = await context.store.end_iteration(
        outcome=current.outcome,
        failure=current.failure,
        tokens=tokens,
        cost=cost,
        spent=context.account(),
        tree=await git.fingerprint_tree(context.project),
    )
    context.view.show(
        "iteration_ended",
        run=context.name,
        iteration=current.number,
        outcome=current.outcome,
        failure=current.failure,
        summary=ended.summary,
        seconds=round(current.watch.seconds, 1),
        tokens=current.usage.tokens,
        estimated=current.usage.is_estimate,
    )
    if context.options.tokens is not None and current.outcome == "ended" and not current.usage.tokens:
        _show_missing_tokens(context)
    if current.outcome != "failed" and current.failure is not None:
        await context.run_hooks("on_error", failure=current.failure)
    await context.run_hooks("post_iteration", outcome=current.outcome)
    if context.options.commit:
        await _commit(context, current.dirty_before, ended.summary or "without a summary")
    await context.publish_commits()
    context.current = None
    return State.DECIDE


async def _commit(context: RunContext, dirty_before: git.DirtyFiles, summary: str) -> None:
    """Commit the changes of the iteration. Changes that cannot be committed now go into the next commit."""
    number = context.run.iteration
    try:
        files = await git.commit_changes(
            context.project, dirty_before, f"{context.name}: iteration {number}\n\n{summary}\n"
        )
    except ShopfloorError as error:
        context.view.show("commit_failed", run=context.name, iteration=number, failure=error.message)
        return
    await context.store.record_commit()
    if files:
        context.view.show("committed", run=context.name, iteration=number, files=files)


async def _commit_rest(context: RunContext) -> None:
    """Commit the changes of the last iteration if its driver was killed before it did, or failed to."""
    dirty_before = await context.store.find_dirty_files()
    if dirty_before is not None:
        await _commit(context, dirty_before, "interrupted")


def _show_missing_tokens(context: RunContext) -> None:
    """Say once that the agent reports no tokens, so that their budget has no effect."""
    if not context.no_tokens_shown:
        context.no_tokens_shown = True
        context.view.show("tokens_unreported", run=context.name, why="--tokens has no effect: the agent reports none")


async def verify_work(context: RunContext) -> State:
    """Check the work while no agent is working on it."""
    return await context.work.verify(context)


async def finish_run(context: RunContext) -> State:
    """End the agent, and record how the run ended and why."""
    assert context.ending is not None
    ending = context.ending
    await context.end_agent()
    if context.options.commit:
        await _commit_rest(context)
    await context.publish_commits()
    await context.run_hooks("session_end", state=ending.state.value, reason=ending.reason)
    await context.store.finish(
        ending.state, ending.reason, alert=ending.code in ALERT_CODES and context.run.crew is None
    )
    base = context.run.start_tree
    stat = None if base is None else await git.diff_tree(context.project, base, "--stat=76")
    if stat:
        context.view.show("changes", run=context.name, stat=stat)
    context.view.show("run_ended", run=context.name, state=ending.state.value, exit=ending.code, reason=ending.reason)
    return State.END


STATES: dict[State, Callable[[RunContext], Awaitable[State]]] = {
    State.START: start_run,
    State.DECIDE: decide_next,
    State.LAUNCH: launch_agent,
    State.INITIALIZE: initialize_agent,
    State.PREPARE: prepare_iteration,
    State.OPEN: open_session,
    State.TURN: run_turn,
    State.CLOSE: close_iteration,
    State.VERIFY: verify_work,
    State.WAIT: wait_for_others,
    State.RECOVER: recover_run,
    State.FINISH: finish_run,
}
