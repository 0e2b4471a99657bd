"""The budgets of a crew and of its workers: the usage of each, and the turns that are left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shopfloor.domain.runs import Run, RunState
from shopfloor.domain.times import SECOND
from shopfloor.runner.budgets import ExhaustedBudget, Stopwatch, Total, find_exhausted_total
from shopfloor.runner.context import BUDGET_EXHAUSTED, Ending, RunContext
from shopfloor.runner.crew_options import CrewOptions
from shopfloor.runner.crew_store import Board


@dataclass
class CrewBudgets:
    """The budgets of one crew. `contexts` are its agents at work, `clock` its time that is not stored yet.

    Iterations are checked before a turn begins, not during it: a turn that was admitted runs to its end, and its work
    is merged.
    """

    crew: str
    options: CrewOptions
    contexts: Mapping[str, RunContext]
    clock: Stopwatch
    leaving: dict[str, Total] = field(default_factory=dict)
    """Workers with an exhausted budget, and their usage."""
    _admitted: dict[str, int] = field(default_factory=dict)
    """Number of iterations of each run that this driver has admitted."""
    _taken_over: dict[str, Total] = field(default_factory=dict)
    """Time and iterations that others had used on tasks a worker took over from them."""

    @property
    def are_set(self) -> bool:
        """Whether the crew or its workers have any budget."""
        return any([*self.options.get_budget().values(), *self.options.get_budget("worker_").values()])

    def find_exhausted(self, board: Board, *, count_iterations: bool) -> Ending | None:
        """Return the ending if a budget of the crew is exhausted."""
        budget = self.options.get_budget()
        used = self.count_whole_usage(board)
        exhausted = find_exhausted_total(used, **(budget if count_iterations else _without_iterations(budget)))
        if exhausted is None:
            return None
        hint = f"{exhausted.reason}. Continue: shopfloor crew resume {self.crew} {exhausted.option}"
        return Ending(RunState.STOPPED, BUDGET_EXHAUSTED, hint)

    def dismiss_workers(self, board: Board, asking: str | None) -> dict[str, ExhaustedBudget]:
        """Return the workers to dismiss now, with their exhausted budget. `asking` is between two turns."""
        budget, dismissed = self.options.get_budget("worker_"), {}
        for worker, used in self.count_usage(board).items():
            # Worker budgets do not apply to the planner and the reviewer.
            if worker in self.leaving or not worker.startswith(f"{self.crew}-worker-"):
                continue
            is_busy = worker in self.contexts and worker != asking
            exhausted = find_exhausted_total(used, **(_without_iterations(budget) if is_busy else budget))
            if exhausted is not None:
                self.leaving[worker], dismissed[worker] = used, exhausted
        return dismissed

    def describe_leaving(self) -> str:
        """Say that every worker's budget is exhausted, and which option lets all of them continue."""
        most = Total(
            max(used.seconds for used in self.leaving.values()),
            max(used.iterations for used in self.leaving.values()),
            max(used.tokens for used in self.leaving.values()),
            max(used.cost for used in self.leaving.values()),
        )
        exhausted = find_exhausted_total(most, **self.options.get_budget("worker_"), prefix="worker-")
        assert exhausted is not None
        reason = f"every worker has used up its budget: {exhausted.reason}"
        return f"{reason}. Continue: shopfloor crew resume {self.crew} {exhausted.option}"

    def is_admitted(self, run: str, number: int) -> bool:
        """Report whether an iteration is already counted: it may be repeated after a rate limit."""
        return number < self._admitted.get(run, 0)

    def admit(self, run: str, number: int) -> None:
        """Count an iteration that is about to begin."""
        self._admitted[run] = number + 1

    def take_over(self, board: Board, worker: str, name: str) -> None:
        """Record others' usage in a run that a worker continues: it does not count toward the worker's own budget."""
        for run in board.runs:
            if run.name == name and run.worker != worker:
                others = self._taken_over.setdefault(worker, Total())
                others.seconds += run.spent / SECOND
                others.iterations += self._count_iterations(run)

    def count_usage(self, board: Board) -> dict[str, Total]:
        """Count the usage of each agent so far, including turns in progress."""
        # Tokens and cost by agent, not by run: several agents may have worked in one run.
        totals = {worker: Total(tokens=tokens, cost=cost) for worker, (tokens, cost) in board.usage.items()}
        for run in board.runs:
            used = totals.setdefault(run.worker or "", Total())
            used.seconds += run.spent / SECOND
            used.iterations += self._count_iterations(run)
        for worker, others in self._taken_over.items():
            used = totals.setdefault(worker, Total())
            used.seconds -= others.seconds
            used.iterations -= others.iterations
        for worker, context in self.contexts.items():
            used = totals.setdefault(worker, Total())
            tokens, cost = _get_unstored(context)
            used.seconds += context.unaccounted
            used.tokens += tokens
            used.cost += cost
        return totals

    def count_whole_usage(self, board: Board) -> Total:
        """Count the usage of the crew so far. Its time is the crew's own, because its agents work in parallel."""
        unstored = [_get_unstored(context) for context in self.contexts.values()]
        return Total(
            board.crew.spent / SECOND + self.clock.seconds,
            sum(map(self._count_iterations, board.runs)),
            sum(run.tokens for run in board.runs) + sum(tokens for tokens, _ in unstored),
            sum(run.cost for run in board.runs) + sum(cost for _, cost in unstored),
        )

    def _count_iterations(self, run: Run) -> int:
        """Count the iterations that a run has begun."""
        return max(run.iteration + (run.spent > 0), self._admitted.get(run.name, 0))


def _get_unstored(context: RunContext) -> tuple[int, int]:
    """Return the tokens and the cost of a turn in progress that are not stored yet."""
    return (0, 0) if context.current is None else context.current.usage.unstored


def _without_iterations(budget: dict[str, Any]) -> dict[str, Any]:
    return {**budget, "iterations": None}
