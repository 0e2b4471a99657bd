"""Tools that start runs from the server: at once, at a given time, repeatedly, or again."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field

from shopfloor.domain.launches import REPEATS, Launch
from shopfloor.domain.pagination import fetch_size, parse_number_cursor, to_page
from shopfloor.domain.times import format_iso, format_iso_or_none, parse_iso
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.toolsets.desk.runs import RunName
from shopfloor.usecases import launches

Specification = Annotated[str, Field(description="Markdown, 1-65536 characters", min_length=1, max_length=65536)]
AgentCommand = Annotated[str | None, Field(description="One of the commands that launch_options lists", max_length=400)]
Iterations = Annotated[int | None, Field(description="Maximum number of iterations, 1-500", ge=1, le=500)]
Minutes = Annotated[int | None, Field(description="Time limit in minutes, 1-10080", ge=1, le=10080)]
Tokens = Annotated[int | None, Field(description="Maximum number of tokens", ge=1, le=10**12)]
Cost = Annotated[float | None, Field(description="Maximum cost", gt=0, le=10**6)]
Permissions = Annotated[
    Literal["ask", "deny", "rules"] | None,
    Field(description="Response to permission requests; by default as configured"),
]
Worktree = Annotated[
    Literal["auto", "always", "never"] | None, Field(description="Work in a git worktree of its own; default auto")
]
Commit = Annotated[bool | None, Field(description="Commit the changes after each iteration")]
StartTime = Annotated[
    str | None, Field(description="Start then, such as 2026-03-01T09:00Z; default now", max_length=40)
]
Repeat = Annotated[Literal["hour", "day", "week"] | None, Field(description="Start it again every hour, day or week")]
LaunchId = Annotated[int, Field(description="Number of the launch", ge=1, le=2**62)]


@toolset.tool("run_start", admin=True)
def start_run(
    uow: UnitOfWork,
    spec: Specification,
    name: RunName = "run",
    agent: AgentCommand = None,
    iterations: Iterations = None,
    minutes: Minutes = None,
    tokens: Tokens = None,
    cost: Cost = None,
    permissions: Permissions = None,
    worktree: Worktree = None,
    commit: Commit = None,
    at: StartTime = None,
    every: Repeat = None,
) -> Json:
    """Let the server start a run as a separate process: at once, at a given time, or repeatedly.

    For the operator alone. The agent must be one that the server offers, and acceptance commands come from the
    project's config file: this tool takes no command.
    """
    options = {
        "iterations": iterations,
        "time": None if minutes is None else f"{minutes}m",
        "tokens": tokens,
        "cost": cost,
        "permissions": permissions,
        "worktree": worktree,
        "commit": commit,
    }
    launch = launches.start_run(
        uow,
        name=name,
        spec=spec,
        agent=agent or None,
        options=options,
        due_at=None if not at else parse_iso(at, "at"),
        repeat=None if every is None else REPEATS[every],
    )
    return format_launch(uow, launch)


@toolset.tool("run_retry", admin=True)
def retry_run(uow: UnitOfWork, run: RunName) -> Json:
    """Let the server continue a run that no process drives, with its previous options."""
    return format_launch(uow, launches.retry_run(uow, run))


@toolset.tool("launch_list", read_only=True)
def list_launches(uow: UnitOfWork, limit: Limit = None, cursor: Cursor = None) -> Json:
    """List the runs that the server was asked to start, latest first."""
    rows = uow.launches.list_page(fetch_size(limit), parse_number_cursor("launches", cursor))
    return to_page("launches", rows, limit, lambda launch: format_launch(uow, launch), lambda launch: launch.id)


@toolset.tool("launch_options", read_only=True)
def show_options(uow: UnitOfWork) -> Json:
    """Show whether this server starts runs, and with which agent commands."""
    return {
        "enabled": uow.limits.launches_runs,
        "agents": list(uow.limits.run_agents),
        "hasDefault": uow.limits.has_default_run_agent,
    }


@toolset.tool("launch_cancel", admin=True, idempotent=True)
def cancel_launch(uow: UnitOfWork, launch: LaunchId) -> Json:
    """Cancel a launch that waits. A run that was started continues."""
    return format_launch(uow, launches.cancel_launch(uow, launch))


def format_launch(uow: UnitOfWork, launch: Launch) -> Json:
    """Return a launch as lists show it."""
    return {
        "launch": launch.id,
        "run": launch.run,
        "continues": launch.spec is None,
        "state": launches.describe_state(uow, launch).value,
        "dueAt": format_iso_or_none(launch.due_at),
        "every": next((name for name, value in REPEATS.items() if value == launch.repeat), None),
        "options": json.loads(launch.options),
        "launches": launch.launches,
        "launchedAt": format_iso_or_none(launch.launched_at),
        "pid": launch.pid,
        "host": launch.host,
        "problem": launch.problem,
        "by": launch.created_by,
        "createdAt": format_iso(launch.created_at),
    }
