"""The runs, one run in detail, and the launches of the server."""

from __future__ import annotations

import asyncio

from shopfloor.toolkit import Json
from shopfloor.web.views.inbox import ANSWERS
from shopfloor.web.views.view import Given, parse_number
from shopfloor.web.visitor import Visitor

SHOWN_LAUNCHES = ("waiting", "starting", "failed")
TRANSCRIPT_ROWS = 100
LATEST_ENTRIES = 15


async def load_runs(visitor: Visitor, given: Given) -> Json:
    """Load the runs, latest first, and the launches that wait or failed."""
    runs, launches, options = await asyncio.gather(
        visitor.ask("run_list", cursor=given.get("cursor")),
        visitor.ask("launch_list", limit=50),
        visitor.ask("launch_options"),
    )
    # Runs that a person can still steer come first.
    runs["runs"].sort(key=lambda run: not run["driven"])
    return {
        "runs": runs,
        "launches": [each for each in launches["launches"] if each["state"] in SHOWN_LAUNCHES or each["dueAt"]],
        "launch_options": options,
    }


async def load_run(visitor: Visitor, given: Given) -> Json:
    """Load one run with its tasks, iterations, notes, questions, usage, and the end of its transcript."""
    run, options, transcript = await asyncio.gather(
        visitor.ask("run_show", run=given["run"]),
        visitor.ask("launch_options"),
        visitor.ask("transcript_list", owner=f"run:{given['run']}", limit=LATEST_ENTRIES),
    )
    counts = {"completed": sum(task["status"] == "completed" for task in run["tasks"]), "total": len(run["tasks"])}
    return {
        "run": run,
        "task_counts": counts,
        "launch_options": options,
        "transcript": transcript,
        "answers": ANSWERS,
    }


async def load_transcript(visitor: Visitor, given: Given) -> Json:
    """Load a part of a run's transcript, from the end or before a cursor."""
    shown = await visitor.ask("run_show", run=given["run"])
    run = shown["run"]
    query, iteration, cursor = given.get("q", "").strip()[:200], given.get("iteration", ""), given.get("cursor")
    seen = await visitor.ask(
        "transcript_list",
        owner=f"run:{run}",
        iteration=parse_number(iteration),
        query=query or None,
        limit=TRANSCRIPT_ROWS,
        cursor=cursor,
    )
    return {"run": run, "crew": shown["crew"], "seen": seen, "q": query, "iteration": iteration, "cursor": cursor}
