"""Budgets: what a run may use up. They are watched from outside of the agent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from shopfloor.domain.loops import Run
from shopfloor.domain.times import SECOND
from shopfloor.runner.options import RunOptions

MILLIONTHS = 1_000_000


@dataclass
class Usage:
    """What one session of the agent has used, as far as it says."""

    tokens: int = 0
    cost: int = 0

    def report(self, tokens: object, cost: object) -> None:
        """Take a figure that grows within a session; anything that is no number is passed over."""
        if isinstance(tokens, int) and not isinstance(tokens, bool):
            self.tokens = max(self.tokens, tokens)
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e12:
            self.cost = max(self.cost, int(cost * MILLIONTHS))


@dataclass
class Stopwatch:
    """Time that passes, except while somebody is being waited for."""

    _since: float = field(default_factory=time.monotonic)
    _before: float = 0.0
    _waits: int = 0

    @property
    def seconds(self) -> float:
        return self._before + (0 if self._waits else time.monotonic() - self._since)

    def __enter__(self) -> None:
        if not self._waits:
            self._before += time.monotonic() - self._since
        self._waits += 1

    def __exit__(self, *_: object) -> None:
        self._waits -= 1
        if not self._waits:
            self._since = time.monotonic()


@dataclass(frozen=True, slots=True)
class UsedUp:
    """A budget that has nothing left, and the option that gives it more."""

    what: str
    more: str


def used_up(run: Run, options: RunOptions, begun: int, usage: Usage, seconds: float) -> UsedUp | None:
    """Which budget is used up; nothing when all have something left."""
    if begun >= options.iterations:
        return UsedUp(f"the budget of {options.iterations} iterations is used up", f"--iterations {begun * 2}")
    return used_up_within(run, options, usage, seconds)


def used_up_within(run: Run, options: RunOptions, usage: Usage, seconds: float) -> UsedUp | None:
    """The same for the budgets that can run out in the middle of an iteration."""
    spent = run.spent / SECOND + seconds
    tokens, cost = run.tokens + usage.tokens, (run.cost + usage.cost) / MILLIONTHS
    if options.time is not None and spent >= options.time:
        return UsedUp(f"the budget of {options.time:g} s is used up", f"--time {options.time * 2:g}s")
    if options.tokens is not None and tokens >= options.tokens:
        return UsedUp(f"the budget of {options.tokens} tokens is used up ({tokens})", f"--tokens {tokens * 2}")
    if options.cost is not None and cost >= options.cost:
        return UsedUp(f"the budget of {options.cost:g} is used up ({cost:.4f})", f"--cost {cost * 2:.2f}")
    return None
