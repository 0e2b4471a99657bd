"""The budgets of a crew and of its workers: what each has used, and which turns they leave."""

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
    """The budgets of one crew. `contexts` are its agents at work, `clock` its time that is not in the store yet.

    Iterations count before a turn begins, and not in its middle: a turn that a budget allowed comes to its end, and its
    work is merged.
    """

    crew: str
    options: CrewOptions
    contexts: Mapping[str, RunContext]
    clock: Stopwatch
    leaving: dict[str, Total] = field(default_factory=dict)
    """Workers whose budget is used up, with what each has used."""
    _admitted: dict[str, int] = field(default_factory=dict)
    """How many iterations each run has, of those that this driver has let begin."""
    _taken_over: dict[str, Total] = field(default_factory=dict)
    """The time and iterations that others had used for the tasks that a worker took over from them."""

    @property
    def are_set(self) -> bool:
        """Whether the crew or its workers have any budget."""
        return any([*self.options.get_budget().values(), *self.options.get_budget("worker_").values()])

    def find_exhausted(self, board: Board, *, count_iterations: bool) -> Ending | None:
        """Return the ending when a budget of the crew is used up."""
        budget = self.options.get_budget()
        used = self.count_whole_usage(board)
        exhausted = find_exhausted_total(used, **(budget if count_iterations else _without_iterations(budget)))
        if exhausted is None:
            return None
        hint = f"{exhausted.reason}. Continue: shopfloor crew resume {self.crew} {exhausted.option}"
        return Ending(RunState.STOPPED, BUDGET_EXHAUSTED, hint)

    def dismiss_workers(self, board: Board, asking: str | None) -> dict[str, ExhaustedBudget]:
        """Return the workers that leave from now on, with the budget that is used up. `asking` is between two turns."""
        budget, dismissed = self.options.get_budget("worker_"), {}
        for worker, used in self.count_usage(board).items():
            # The budgets of a worker are not those of the planner and of the reviewer.
            if worker in self.leaving or not worker.startswith(f"{self.crew}-worker-"):
                continue
            is_busy = worker in self.contexts and worker != asking
            exhausted = find_exhausted_total(used, **(_without_iterations(budget) if is_busy else budget))
            if exhausted is not None:
                self.leaving[worker], dismissed[worker] = used, exhausted
        return dismissed

    def describe_leaving(self) -> str:
        """Say that every worker has used its budget up, and with which option all of them continue."""
        most = Total(
            max(used.seconds for used in self.leaving.values()),
            max(used.iterations for used in self.leaving.values()),
            max(used.tokens for used in self.leaving.values()),
            max(used.cost for used in self.leaving.values()),
        )
        exhausted = find_exhausted_total(most, **self.options.get_budget("worker_"), prefix="worker-")
        assert exhausted is not None
        reason = f"every worker has used its budget up: {exhausted.reason}"
        return f"{reason}. Continue: shopfloor crew resume {self.crew} {exhausted.option}"

    def is_admitted(self, run: str, number: int) -> bool:
        """Report whether an iteration is counted already, as one that is repeated after a rate limit is."""
        return number < self._admitted.get(run, 0)

    def admit(self, run: str, number: int) -> None:
        """Count an iteration that is about to begin."""
        self._admitted[run] = number + 1

    def take_over(self, board: Board, worker: str, name: str) -> None:
        """Note what others have used in a run that a worker continues: it is not for the worker's own budget."""
        for run in board.runs:
            if run.name == name and run.worker != worker:
                others = self._taken_over.setdefault(worker, Total())
                others.seconds += run.spent / SECOND
                others.iterations += self._count_iterations(run)

    def count_usage(self, board: Board) -> dict[str, Total]:
        """Count what each agent has used so far, including the turns that are in progress."""
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
        """Count what the crew has used so far. Its time is that of the crew, because its agents work side by side."""
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
    """Return the tokens and the cost of a turn in progress that the store does not have yet."""
    return (0, 0) if context.current is None else context.current.usage.unstored


def _without_iterations(budget: dict[str, Any]) -> dict[str, Any]:
    return {**budget, "iterations": None}
