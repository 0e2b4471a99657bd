"""Tools for runs: list and show them, pause, resume and stop them, and send them messages."""

from __future__ import annotations

import json
from itertools import islice
from typing import Annotated

from pydantic import Field

from shopfloor.domain.pagination import fetch_size, parse_number_cursor, to_page
from shopfloor.domain.runs import Iteration, Request, Run, Wanted, describe_status, format_status, format_task_id
from shopfloor.domain.tasks import BoardKind, State
from shopfloor.domain.times import SECOND, format_iso, format_iso_or_none
from shopfloor.domain.usage import UsageKind
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.toolsets.desk.work import format_usage
from shopfloor.usecases import run_tasks, runs, usage

MAX_ROWS = 50
MAX_TASKS = 200

RunName = Annotated[str, Field(description="Name of the run", min_length=1, max_length=64)]
TaskId = Annotated[str, Field(description="Such as TAS-1", min_length=1, max_length=64)]
Word = Annotated[str, Field(max_length=4000)]
Command = Annotated[list[Word], Field(description="Program and arguments; empty: no command", max_length=100)]
Message = Annotated[str, Field(description="1-20000 characters", min_length=1, max_length=20_000)]


@toolset.tool("run_list", read_only=True)
def list_runs(
    uow: UnitOfWork,
    include_crews: Annotated[bool, Field(description="Include the runs of crews: one per task and review")] = False,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Json:
    """List the runs, latest first."""
    list_page = uow.runs.list_page if include_crews else uow.runs.list_without_crews
    rows = list_page(fetch_size(limit), parse_number_cursor("runs", cursor))

    def format_row(run: Run) -> Json:
        board = uow.tasks_of(BoardKind.LOOP, run.name)
        counts = {"completed": board.count(state=State.COMPLETED), "total": board.count()}
        return {**format_run(uow, run), "tasks": counts}

    return to_page("runs", rows, limit, format_row, lambda run: run.created_at)


@toolset.tool("run_show", read_only=True)
def show_run(uow: UnitOfWork, run: RunName) -> Json:
    """Show one run with its last iterations, tasks and notes."""
    found = uow.runs.get(run)
    return {
        **format_run(uow, found),
        "spec": found.spec[:4000],
        "project": found.project,
        "options": json.loads(found.options or "{}"),
        "verdict": found.verdict,
        "usage": [
            {"day": format_iso(day.day)[:10], **format_usage(day)} for day in usage.list_usage(uow, UsageKind.RUN, run)
        ],
        "requests": [_format_request(request) for request in uow.run_requests.list_page(run, MAX_ROWS)],
        "rounds": [_format_iteration(iteration) for iteration in uow.runs.list_iterations(run, MAX_ROWS)],
        "tasks": [
            {
                "id": format_task_id(task.number),
                "number": task.number,
                "content": task.title,
                "status": format_status(task.state),
                "priority": task.priority,
                "blocked": task.open_blockers > 0,
            }
            for task in islice(run_tasks.iterate_tasks(uow, run), MAX_TASKS)
        ],
        "notes": [
            {
                "id": note.id,
                "type": note.type,
                "iteration": note.iteration,
                "content": note.content,
                "at": format_iso(note.created_at),
            }
            for note in uow.notes.list_page(run, MAX_ROWS)
        ],
    }


def _format_request(request: Request) -> Json:
    return {
        "request": request.number,
        "kind": request.kind,
        "question": request.question,
        "options": list(request.options),
        "answer": request.answer,
        "answeredBy": request.answered_by,
        "at": format_iso(request.created_at),
    }


def _format_iteration(iteration: Iteration) -> Json:
    return {
        "number": iteration.number,
        "attempts": iteration.attempts,
        "summary": iteration.summary,
        "outcome": iteration.outcome,
        "failure": iteration.failure,
        "tokens": iteration.tokens,
        "cost": iteration.cost / 1_000_000,
        "startedAt": format_iso(iteration.started_at),
        "endedAt": format_iso_or_none(iteration.ended_at),
    }


@toolset.tool("run_pause", idempotent=True)
def pause_run(uow: UnitOfWork, run: RunName) -> Json:
    """Pause a run after its current iteration. Rejected if no process drives the run."""
    return format_run(uow, runs.steer_run(uow, run, Wanted.PAUSE))


@toolset.tool("run_resume", idempotent=True)
def resume_run(uow: UnitOfWork, run: RunName) -> Json:
    """Resume a paused run. Rejected if no process drives the run."""
    return format_run(uow, runs.steer_run(uow, run, Wanted.GO))


@toolset.tool("run_stop", idempotent=True)
def stop_run(uow: UnitOfWork, run: RunName) -> Json:
    """Stop a run now: the turn of its agent is cancelled. Rejected if no process drives the run."""
    return format_run(uow, runs.steer_run(uow, run, Wanted.STOP))


@toolset.tool("run_set_acceptance", admin=True, approval=True, idempotent=True)
def set_acceptance(uow: UnitOfWork, run: RunName, task: TaskId, command: Command) -> Json:
    """Set the command that must pass before a task of a run counts as done.

    For the operator alone: the runner executes the command on its machine.
    """
    changed = run_tasks.set_acceptance_command(uow, run, task, command or None)
    return {"run": run, "task": format_task_id(changed.number), "acceptanceCommand": command or None}


@toolset.tool("run_say")
def send_message(uow: UnitOfWork, run: RunName, message: Message) -> Json:
    """Send a message to a run. Its agent reads it in the next prompt."""
    return format_run(uow, runs.send_message(uow, run, message))


def format_run(uow: UnitOfWork, run: Run) -> Json:
    """Return a run as lists show it."""
    options = json.loads(run.options or "{}")
    driven = runs.is_driven(uow, run)
    return {
        "run": run.name,
        "crew": run.crew,
        "worker": run.worker,
        "task": run.task,
        "state": run.state.value,
        "wanted": run.wanted.value,
        "driven": driven,
        "status": describe_status(run, driven),
        "reason": run.reason,
        "waiting": run.waiting,
        "iteration": run.iteration,
        "iterations": options.get("iterations"),
        "tokens": run.tokens,
        "cost": run.cost / 1_000_000,
        "elapsed": (runs.get_elapsed(uow, run) if driven else run.spent) // SECOND,
        "budgets": {name: options[name] for name in ("time", "tokens", "cost") if options.get(name)},
        "startedAt": format_iso(run.created_at),
        "endedAt": format_iso_or_none(run.ended_at),
    }
