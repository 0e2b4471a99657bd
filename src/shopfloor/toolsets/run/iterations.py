"""Tools for the iterations of a run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.runs import Iteration, format_status, format_task_id
from shopfloor.domain.tasks import Task
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json
from shopfloor.toolsets.run.contract import Fence, lock_run, toolset
from shopfloor.usecases import iterations, run_tasks

HISTORY_SUMMARIES = 5
# Maximum size of the tasks and of the notes in a prompt.
MAX_SECTION_CHARACTERS = 20_000

_MAX_ROWS = 200

Number = Annotated[int, Field(description="The iteration's number", ge=0)]


@toolset.tool("iteration_begin")
def begin_iteration(
    uow: UnitOfWork,
    fence: Fence,
    prompt_changed: Annotated[bool, Field(description="Whether the prompt says that there is no progress")],
) -> Json:
    """Start the next iteration, or restart the last one if it was cut off.

    Return the run, the iteration, the messages and mail for its prompt, and the files that were already changed before
    the first uncommitted iteration.
    """
    name = uow.actor.name
    number = iterations.next_iteration_number(uow, lock_run(uow, fence))
    iteration, inbound = iterations.begin_iteration(uow, name, number, prompt_changed=prompt_changed)
    return {
        "run": uow.runs.get(name),
        "iteration": iteration,
        "inbound": inbound,
        "dirty_before": iterations.find_dirty_files(uow, name),
    }


@toolset.tool("iteration_dirty")
def set_dirty_files(
    uow: UnitOfWork,
    fence: Fence,
    number: Number,
    files: Annotated[dict[str, str], Field(description="Files that are changed before it, with their digests")],
) -> None:
    """Record the files that were already changed before an iteration, so that its commit survives a crash."""
    lock_run(uow, fence)
    iterations.set_dirty_files(uow, uow.actor.name, number, files)


@toolset.tool("iteration_uncommitted", read_only=True)
def find_dirty_files(uow: UnitOfWork) -> dict[str, str] | None:
    """Return the files that were already changed before the first uncommitted iteration; null if all are committed."""
    return iterations.find_dirty_files(uow, uow.actor.name)


@toolset.tool("iteration_committed")
def record_commit(uow: UnitOfWork, fence: Fence) -> None:
    """Record that the changes of all iterations so far are committed."""
    lock_run(uow, fence)
    iterations.record_commit(uow, uow.actor.name)


@toolset.tool("iteration_prompt", read_only=True)
def read_prompt_sections(uow: UnitOfWork) -> Json:
    """Return the sections of the prompt about tasks, notes and history."""
    name = uow.actor.name
    tasks = [
        f"- {format_task_id(task.number)} [{format_status(task.state)}, priority {task.priority}]"
        f" {' '.join(task.title.split())}"
        for task in run_tasks.iterate_tasks(uow, name)
    ]
    notes = [
        f"- {note.id} [{note.type}, iteration {note.iteration}] {note.content}"
        for note in uow.notes.list_page(name, _MAX_ROWS, newest_first=True)
    ]
    summaries = [
        f"- Iteration {each.number}: {each.summary}"
        for each in uow.runs.list_iterations(name, _MAX_ROWS)
        if each.summary
    ]
    return {
        "tasks": _fit_lines(tasks) or "There are no tasks yet.",
        "notes": _fit_lines(notes) or "There are no notes yet.",
        "has_tasks": bool(tasks),
        "history": "\n".join(reversed(summaries[:HISTORY_SUMMARIES])) or "Nothing was done yet.",
    }


def _fit_lines(lines: list[str]) -> str:
    kept: list[str] = []
    size = 0
    for line in lines:
        size += len(line)
        if size > MAX_SECTION_CHARACTERS:
            kept.append(f"… and {len(lines) - len(kept)} more; your tools list them all.")
            break
        kept.append(line)
    return "\n".join(kept)


@toolset.tool("iteration_session")
def set_session(
    uow: UnitOfWork, fence: Fence, session: Annotated[str, Field(description="The agent's id of its session")]
) -> None:
    """Store the agent's session, so that a resumed run can load it."""
    lock_run(uow, fence)
    iterations.set_session(uow, uow.actor.name, session)


# Messages and mail count as delivered only now. If they did so when the prompt is written, an agent that failed to open
# a session would lose them.
@toolset.tool("iteration_prompted")
def record_prompt_delivery(
    uow: UnitOfWork,
    fence: Fence,
    number: Number,
    messages: Annotated[list[int], Field(description="The messages in the prompt")],
    mails: Annotated[list[int], Field(description="The mail in the prompt")],
) -> None:
    """Record that the agent got the prompt with these messages and mails."""
    lock_run(uow, fence)
    iterations.record_prompt_delivery(uow, uow.actor.name, number, messages, mails)


@toolset.tool("iteration_completed_tasks", read_only=True)
def list_completed_tasks(
    uow: UnitOfWork, since: Annotated[int, Field(description="From this moment on, in microseconds")]
) -> list[Task]:
    """Return the tasks that were completed since a moment."""
    return [
        task
        for task in run_tasks.iterate_tasks(uow, uow.actor.name)
        if task.completed_at is not None and task.completed_at >= since
    ]


@toolset.tool("iteration_reopen_task")
def reopen_task(
    uow: UnitOfWork, fence: Fence, task: Annotated[int, Field(description="The task's number", ge=1)]
) -> None:
    """Set a completed task whose acceptance command failed back to remaining."""
    lock_run(uow, fence)
    run_tasks.reopen_task(uow, uow.actor.name, task)


@toolset.tool("iteration_usage")
def record_usage(
    uow: UnitOfWork,
    fence: Fence,
    tokens: Annotated[int, Field(description="Tokens since the last report; fewer when an estimate was too high")],
    cost: Annotated[int, Field(description="Cost since the last report, in millionths")],
) -> None:
    """Record the usage of the current iteration so far, so that a crash does not lose it."""
    iterations.record_usage(uow, lock_run(uow, fence), tokens, cost)


@toolset.tool("iteration_end")
def end_iteration(
    uow: UnitOfWork,
    fence: Fence,
    outcome: Annotated[str, Field(description="How it ended")],
    tokens: Annotated[int, Field(description="Tokens since the last report")],
    cost: Annotated[int, Field(description="Cost since the last report, in millionths")],
    spent: Annotated[int, Field(description="Microseconds since the last account", ge=0)],
    failure: Annotated[str | None, Field(description="What went wrong")] = None,
    tree: Annotated[str, Field(description="A fingerprint of the project's files")] = "",
) -> Iteration:
    """Record how the current iteration ended, and its usage."""
    lock_run(uow, fence)
    return iterations.end_iteration(
        uow, uow.actor.name, outcome=outcome, failure=failure, tokens=tokens, cost=cost, spent=spent, tree=tree
    )


@toolset.tool("iteration_fail")
def set_failure(
    uow: UnitOfWork, fence: Fence, number: Number, failure: Annotated[str, Field(description="What went wrong")]
) -> None:
    """Record that the work of an iteration did not pass."""
    lock_run(uow, fence)
    iterations.set_failure(uow, uow.actor.name, number, failure)
