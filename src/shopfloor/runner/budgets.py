"""The budgets of a run. They are enforced outside the agent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from shopfloor.domain.runs import Run
from shopfloor.domain.times import SECOND
from shopfloor.runner.options import RunOptions

MILLIONTHS = 1_000_000
MAX_REPORTED = 10**12
"""Numbers of tokens, and costs, that are beyond it are mistakes. Their sum would not fit into the store."""


@dataclass
class Usage:
    """The usage of one agent session, as far as the agent reports it.

    Agents report billed tokens at the end of a turn, if at all. Until then, each report of the context size counts as
    one billed request with that context: 20 requests with a context of 30,000 tokens cost 600,000, not 30,000.
    """

    billed: int = 0
    estimate: int = 0
    cost: int = 0
    stored_tokens: int = 0
    stored_cost: int = 0

    @property
    def tokens(self) -> int:
        return self.billed or self.estimate

    @property
    def is_estimate(self) -> bool:
        return not self.billed and bool(self.estimate)

    @property
    def unstored(self) -> tuple[int, int]:
        """The tokens and the cost that are not stored yet."""
        return self.tokens - self.stored_tokens, self.cost - self.stored_cost

    def take_unstored(self) -> tuple[int, int]:
        """Return the tokens and the cost that are not stored yet, and count them as stored."""
        unstored = self.unstored
        self.stored_tokens, self.stored_cost = self.tokens, self.cost
        return unstored

    # Agents may send any type here, and in Python a bool is an int.

    def report_billed(self, total: object) -> None:
        """Record the tokens billed for the session so far. Ignore values that are not numbers."""
        if isinstance(total, int) and not isinstance(total, bool) and total < MAX_REPORTED:
            self.billed = max(self.billed, total)

    def report_context(self, used: object, cost: object) -> None:
        """Record the size of the context, and the cost of the session so far. Ignore values that are not numbers."""
        if isinstance(used, int) and not isinstance(used, bool) and 0 < used < MAX_REPORTED:
            self.estimate += used
        # The cost is a running total: a lower value arrived out of order.
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < MAX_REPORTED:
            self.cost = max(self.cost, int(cost * MILLIONTHS))


@dataclass
class Stopwatch:
    """A stopwatch. As a context manager, it pauses while the run waits or a person is asked."""

    _started: float = field(default_factory=time.monotonic)
    _elapsed: float = 0.0
    _waits: int = 0

    @property
    def seconds(self) -> float:
        return self._elapsed + (0 if self._waits else time.monotonic() - self._started)

    @property
    def is_halted(self) -> bool:
        """Whether the stopwatch is paused."""
        return self._waits > 0

    def restart(self) -> float:
        """Restart at zero and return the seconds so far."""
        seconds = self.seconds
        self._started, self._elapsed = time.monotonic(), 0.0
        return seconds

    def __enter__(self) -> None:
        if not self._waits:
            self._elapsed += time.monotonic() - self._started
        self._waits += 1

    def __exit__(self, *_: object) -> None:
        self._waits -= 1
        if not self._waits:
            self._started = time.monotonic()


@dataclass(frozen=True, slots=True)
class ExhaustedBudget:
    """A budget with nothing left, and the option that raises it."""

    reason: str
    option: str


def find_exhausted(run: Run, options: RunOptions, begun: int, usage: Usage, seconds: float) -> ExhaustedBudget | None:
    """Return the budget that leaves no further iteration, or None."""
    if begun >= options.iterations:
        return ExhaustedBudget(_describe_iterations(options.iterations), f"--iterations {begun * 2}")
    return find_exhausted_within(run, options, usage, seconds)


def _describe_iterations(budget: int) -> str:
    return f"the budget of {'1 iteration' if budget == 1 else f'{budget} iterations'} is used up"


def find_exhausted_within(run: Run, options: RunOptions, usage: Usage, seconds: float) -> ExhaustedBudget | None:
    """Return the budget that ran out during an iteration, or None."""
    used = Total(run.spent / SECOND + seconds, 0, run.tokens + usage.tokens, run.cost + usage.cost)
    return find_exhausted_total(used, time=options.time, tokens=options.tokens, cost=options.cost)


@dataclass
class Total:
    """The combined usage of several runs: seconds, iterations, tokens, and cost in millionths."""

    seconds: float = 0.0
    iterations: int = 0
    tokens: int = 0
    cost: int = 0


def find_exhausted_total(
    used: Total,
    *,
    time: float | None = None,
    iterations: int | None = None,
    tokens: int | None = None,
    cost: float | None = None,
    prefix: str = "",
) -> ExhaustedBudget | None:
    """Return the exhausted budget, or None. The prefix starts the name of the option that raises it."""
    if time is not None and used.seconds >= time:
        return ExhaustedBudget(f"the budget of {time:g} s is used up", f"--{prefix}time {time * 2:g}s")
    if iterations is not None and used.iterations >= iterations:
        return ExhaustedBudget(_describe_iterations(iterations), f"--{prefix}iterations {iterations * 2}")
    if tokens is not None and used.tokens >= tokens:
        reason = f"the budget of {tokens} tokens is used up ({used.tokens})"
        return ExhaustedBudget(reason, f"--{prefix}tokens {used.tokens * 2}")
    spent = used.cost / MILLIONTHS
    if cost is not None and spent >= cost:
        return ExhaustedBudget(f"the budget of {cost:g} is used up ({spent:.4f})", f"--{prefix}cost {spent * 2:.2f}")
    return None
