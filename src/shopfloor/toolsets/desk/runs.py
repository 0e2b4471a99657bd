"""Tools for the loops: how each run is, and what a person wants of it."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field

from shopfloor.domain.loops import Iteration, Note, Run, Wanted, spell, task_id
from shopfloor.domain.pages import listed, read_number_cursor, wanted
from shopfloor.domain.times import SECOND, iso, iso_or_none
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.manners import toolset
from shopfloor.usecases import loops

SHOWN = 50

RunName = Annotated[str, Field(description="The loop's name", min_length=1, max_length=64)]
WantedName = Annotated[
    Literal["go", "pause", "stop"], Field(description="pause and stop wait for its iteration to end")
]
Message = Annotated[str, Field(description="1-20000 characters", min_length=1, max_length=20_000)]


@toolset.tool("run_list", read_only=True)
def list_runs(work: Work, limit: Limit = None, cursor: Cursor = None) -> Json:
    """The loops, the one begun last first."""
    rows = work.runs.page(wanted(limit), read_number_cursor("runs", cursor))
    return listed("runs", rows, limit, lambda run: spell_run(work, run), lambda run: run.created_at)


@toolset.tool("run_show", read_only=True)
def show(work: Work, run: RunName) -> Json:
    """One loop with its last iterations, tasks and notes."""
    found = work.runs.get(run)
    tasks = []
    for task in loops.all_tasks(work, run):
        tasks.append(
            {
                "id": task_id(task.number),
                "number": task.number,
                "content": task.title,
                "status": spell(task.state),
                "priority": task.priority,
                "blocked": task.open_blockers > 0,
            }
        )
        if len(tasks) == 4 * SHOWN:
            break
    return {
        **spell_run(work, found),
        "spec": found.spec[:4000],
        "verdict": found.verdict,
        "rounds": [_iteration(each) for each in work.runs.iterations(run, SHOWN)],
        "tasks": tasks,
        "notes": [_note(note) for note in work.run_talk.notes(run, SHOWN)],
    }  # fmt: skip


@toolset.tool("run_steer", idempotent=True)
def steer(work: Work, run: RunName, wanted: WantedName) -> Json:
    """Pause a loop after its iteration, let it go on, or stop it."""
    return spell_run(work, loops.steer(work, run, Wanted(wanted)))


@toolset.tool("run_say")
def say(work: Work, run: RunName, message: Message) -> Json:
    """Say something to a loop; its agent reads it in the next prompt."""
    return spell_run(work, loops.say(work, run, message))


def spell_run(work: Work, run: Run) -> Json:
    """A run as a list shows it."""
    options = json.loads(run.options or "{}")
    elapsed = run.spent if run.ended_at else max(run.spent, work.now - run.created_at)
    return {
        "run": run.name,
        "state": run.state.value,
        "wanted": run.wanted.value,
        "driven": loops.is_driven(work, run),
        "reason": run.reason,
        "iteration": run.iteration,
        "iterations": options.get("iterations"),
        "tokens": run.tokens,
        "cost": run.cost / 1_000_000,
        "elapsed": elapsed // SECOND,
        "budgets": {name: options[name] for name in ("time", "tokens", "cost") if options.get(name)},
        "startedAt": iso(run.created_at),
        "endedAt": iso_or_none(run.ended_at),
    }


def _iteration(iteration: Iteration) -> Json:
    return {
        "number": iteration.number,
        "attempts": iteration.attempts,
        "summary": iteration.summary,
        "outcome": iteration.outcome,
        "failure": iteration.failure,
        "startedAt": iso(iteration.started_at),
        "endedAt": iso_or_none(iteration.ended_at),
    }


def _note(note: Note) -> Json:
    return {"id": note.id, "type": note.type, "iteration": note.iteration, "content": note.content,
            "at": iso(note.created_at)}  # fmt: skip
