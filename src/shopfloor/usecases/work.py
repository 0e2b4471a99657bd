"""The team's completed work: tasks, cycle times, repeated attempts, tokens and cost, by day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from shopfloor.domain.tasks import State, Task
from shopfloor.domain.times import DAY
from shopfloor.domain.usage import UsageDay, UsageKind
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import usage

MAX_TASKS = 5000
MAX_COUNT = 1000
MAX_AGENTS = 20


@dataclass(frozen=True, slots=True)
class CompletedWork:
    """Completed work: the number of tasks, how long one took, and how many needed more than one attempt."""

    completed: int
    cycle_time: int | None
    retried: int


@dataclass(frozen=True, slots=True)
class WorkSummary:
    """The completed work of a period, of each of its days, and of the agents that completed most."""

    total: CompletedWork
    days: list[tuple[int, CompletedWork, UsageDay]]
    agents: list[tuple[str, CompletedWork, UsageDay]]
    open_tasks: int
    failed_tasks: int
    is_complete: bool


def summarize_work(uow: UnitOfWork, days: int) -> WorkSummary:
    """Return the work completed within the last days, including today. It counts the latest 5,000 tasks."""
    first = uow.now // DAY * DAY - (days - 1) * DAY
    tasks = uow.tasks.list_completed(MAX_TASKS, first)
    by_day: dict[int, list[Task]] = defaultdict(list)
    by_agent: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        assert task.completed_at is not None
        by_day[task.completed_at // DAY * DAY].append(task)
        if task.assignee is not None:
            by_agent[task.assignee].append(task)
    used = {each.day: each for each in usage.list_usage(uow, UsageKind.TOTAL, days=days)}
    busiest = sorted(by_agent, key=lambda name: (-len(by_agent[name]), name))[:MAX_AGENTS]
    open_states = (State.PENDING, State.ASSIGNED, State.IN_PROGRESS, State.REVIEW, State.BLOCKED)
    return WorkSummary(
        total=_measure(tasks),
        days=[
            (day, _measure(by_day[day]), used.get(day, UsageDay(day, 0, 0)))
            for day in range(first, first + days * DAY, DAY)
        ],
        agents=[
            (name, _measure(by_agent[name]), usage.sum_usage(uow, UsageKind.AGENT, name, days)) for name in busiest
        ],
        open_tasks=sum(uow.tasks.count_up_to(MAX_COUNT, state=state) for state in open_states),
        failed_tasks=uow.tasks.count_up_to(MAX_COUNT, state=State.FAILED),
        is_complete=len(tasks) < MAX_TASKS,
    )


def _measure(tasks: Sequence[Task]) -> CompletedWork:
    times = [task.completed_at - task.started_at for task in tasks if task.completed_at and task.started_at]
    return CompletedWork(len(tasks), int(median(times)) if times else None, sum(task.attempts > 1 for task in tasks))
