"""Usage: record what agents report, and add it up."""

from __future__ import annotations

from shopfloor.domain.times import DAY
from shopfloor.domain.usage import UsageDay, UsageKind
from shopfloor.repositories.uow import UnitOfWork

MAX_DAYS = 400


def record_usage(
    uow: UnitOfWork,
    tokens: int,
    cost: int,
    *,
    agent: str | None = None,
    run: str | None = None,
    task: int | None = None,
) -> None:
    """Add an agent's reported usage to today: in total, and for its agent, run and task if known."""
    if tokens == 0 and cost == 0:
        return
    named = {
        UsageKind.TOTAL: "",
        UsageKind.AGENT: agent,
        UsageKind.RUN: run,
        UsageKind.TASK: str(task) if task else None,
    }
    for kind, name in named.items():
        if name is not None:
            uow.usage.add(kind, name, uow.now // DAY * DAY, tokens, cost)


def list_usage(uow: UnitOfWork, kind: UsageKind, name: str = "", days: int = MAX_DAYS) -> list[UsageDay]:
    """Return the usage of the last days, one entry for each day that has any."""
    return uow.usage.list_days(kind, name, uow.now // DAY * DAY - (days - 1) * DAY, days)


def sum_usage(uow: UnitOfWork, kind: UsageKind, name: str, days: int = MAX_DAYS) -> UsageDay:
    """Return the usage of the last days as one entry, with the first day that has any."""
    found = list_usage(uow, kind, name, days)
    return UsageDay(found[0].day if found else 0, sum(day.tokens for day in found), sum(day.cost for day in found))
