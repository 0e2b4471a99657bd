"""The tool behind the team's work metrics."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.times import SECOND, format_iso
from shopfloor.domain.usage import UsageDay
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases import work
from shopfloor.usecases.work import CompletedWork

Days = Annotated[int, Field(description="How many days, 1-90, default 14", ge=1, le=90)]


@toolset.tool("work_summary", read_only=True)
def summarize_work(uow: UnitOfWork, days: Days = 14) -> Json:
    """Show completed tasks, cycle time, repeated attempts, tokens and cost of the last days, and by agent."""
    found = work.summarize_work(uow, days)
    return {
        "total": {
            **_format_completed_work(found.total),
            "tokens": sum(used.tokens for _, _, used in found.days),
            "cost": sum(used.cost for _, _, used in found.days) / 1_000_000,
        },
        "days": [
            {"day": format_iso(day)[:10], **_format_completed_work(figures), **format_usage(used)}
            for day, figures, used in found.days
        ],
        "agents": [
            {"agent": name, **_format_completed_work(figures), **format_usage(used)}
            for name, figures, used in found.agents
        ],
        "openTasks": found.open_tasks,
        "failedTasks": found.failed_tasks,
        "complete": found.is_complete,
    }


def format_usage(used: UsageDay) -> Json:
    """Return tokens and cost as the desk shows them."""
    return {"tokens": used.tokens, "cost": used.cost / 1_000_000}


def _format_completed_work(figures: CompletedWork) -> Json:
    return {
        "completed": figures.completed,
        "cycleSeconds": None if figures.cycle_time is None else figures.cycle_time // SECOND,
        "retried": figures.retried,
    }
