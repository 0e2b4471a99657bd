"""Decisions of people and reviewers about the work of a run: its plan, single tasks, and the whole."""

from __future__ import annotations

import json
from collections.abc import Iterable

from shopfloor.domain.reviews import ReviewState
from shopfloor.domain.runs import RunSnapshot, RunState, format_status, format_task_id
from shopfloor.domain.tasks import State as TaskState
from shopfloor.domain.tasks import Task
from shopfloor.runner import git, verification
from shopfloor.runner.context import NOT_ANSWERED, Ending, RunContext
from shopfloor.runner.review import Reviewer, ReviewRequest, review_work
from shopfloor.runner.session_settings import SessionSettings

APPROVE = "approve"


async def ask_decision(context: RunContext, kind: str, question: str) -> bool:
    """Ask a person to approve, and wait without using budget. A reply in words goes into the next prompt.

    Without an answer in time, the run ends.
    """
    number = await context.store.ask_decision(kind, question)
    seconds = context.options.question_time
    await context.begin_waiting(f"a decision on request-{number}", seconds)
    # An agent that idles for hours holds memory and connections for nothing.
    await context.end_agent()
    with context.clock:
        answer = await context.store.wait_for_answer(number, seconds)
    await context.store.set_waiting(None)
    if answer is None:
        reason = context.resume_hint(f"a decision on request-{number} did not arrive within {seconds:g} s")
        context.set_ending(Ending(RunState.UNANSWERED, NOT_ANSWERED, reason))
    return answer == APPROVE


# The plan


def needs_plan_approval(context: RunContext, snapshot: RunSnapshot) -> bool:
    """Report whether there is a plan that no person has approved."""
    is_planned = snapshot.last_iteration is not None and snapshot.last_iteration.ended_at is not None
    return context.options.approve_plan and not snapshot.run.plan_approved and is_planned and bool(snapshot.tasks)


async def approve_plan(context: RunContext, snapshot: RunSnapshot) -> None:
    """Ask a person to approve the tasks. If they do not, the next iteration plans again."""
    tasks = "\n".join(
        f"- {format_task_id(task.number)} [{format_status(task.state)}, priority {task.priority}] {task.title}"
        for task in snapshot.tasks
    )
    question = f"Approve the plan of {context.name}? Answer approve, or say what to change.\n{tasks}"[:20_000]
    await ask_decision(context, "plan", question)


# Tasks with a command of their own


def list_unproven(context: RunContext, tasks: Iterable[Task]) -> list[Task]:
    """Return the completed tasks whose acceptance command has not passed since."""
    return [
        task
        for task in tasks
        if task.acceptance and task.state is TaskState.COMPLETED and context.proven.get(task.number) != task.acceptance
    ]


async def prove_tasks(context: RunContext, tasks: Iterable[Task]) -> None:
    """Run the acceptance commands of completed tasks, and reopen each task whose command fails."""
    for task in tasks:
        command = json.loads(task.acceptance or "[]")
        failing = await verification.find_failing_command(
            [command], context.project, context.options.verify_time, verification.show_results(context)
        )
        if failing is None:
            context.proven[task.number] = task.acceptance or ""
            continue
        await reopen_task(context, task, verification.explain_failure(failing))


async def reopen_task(context: RunContext, task: Task, why: str) -> None:
    """Reopen a task and say why in the next prompt."""
    id = format_task_id(task.number)
    context.proven.pop(task.number, None)
    await context.store.reopen_task(task.number)
    context.view.show("task_reopened", run=context.name, task=id, why=why)
    context.prompt_extras.append(
        f"{id} was completed, but its acceptance command does not pass. It is remaining again: {why}"
    )


# The whole


async def review_run(context: RunContext, snapshot: RunSnapshot, verified: str) -> str | None:
    """Review verified work and wait for the verdict. Return None if it is approved, otherwise a text for the next
    prompt."""
    rejections, last = await context.store.list_rejections(), snapshot.last_iteration
    if rejections and last is not None and (rejections[-1].decided_at or 0) > (last.ended_at or 0):
        # A driver was killed after the verdict. Asking again would cost a review, and discard this one.
        return await _handle_rejection(context, rejections[-1].comment, None)
    options = context.options
    assert options.reviewer is not None
    base = snapshot.run.start_tree
    diff = None if base is None else await git.diff_tree(context.project, base, "-p")
    request = ReviewRequest(context.project, snapshot.run.spec, verified, diff or "")
    settings = SessionSettings(options.reviewer_model, options.reviewer_mode, must_ask=True)
    reviewer = Reviewer(options.reviewer, settings, options.review_time, options.handshake, options.grace)
    context.view.show("review_started", run=context.name, reviewer=list(options.reviewer))
    result = await review_work(
        request, reviewer, context.store, context.mcp_server.url, snapshot.run.iteration, context.view, context.name
    )
    tokens, cost = result.usage.take_unstored()
    if tokens or cost:
        await context.store.record_usage(tokens, cost)
    facts = {"state": result.state.value, "comment": result.comment, "failure": result.failure, "tokens": tokens}
    context.view.show("reviewed", run=context.name, **facts)
    if result.state is ReviewState.APPROVED:
        return None
    return await _handle_rejection(context, result.comment, result.failure)


async def _handle_rejection(context: RunContext, comment: str, failure: str | None) -> str | None:
    """Return the comment for the next prompt; after too many rejections, or without a verdict, ask a person."""
    # Counted in the store: killing the driver must not grant the agent further rounds.
    rejections = len(await context.store.list_rejections())
    if failure is None and rejections < context.options.review_rounds:
        return f"A reviewer read the work and requests changes:\n{comment}"
    why = failure or f"the reviewer has rejected it {rejections} times, most recently:\n{comment}"
    question = f"Is the work of {context.name} done? Answer approve, or say what to change. It is verified, but {why}"
    if await ask_decision(context, "review", question[:20_000]):
        return None
    return f"A person decided that the work is not done. The reviewer said:\n{comment or failure}"
