"""The way of a call, in one visible place.

    refuse ▶ identify ▶ limit ▶ record ▶ permit ▶ validate ▶ escalate ▶ retry ▶ perform

A step takes a call and the rest of the way. The order is the meaning: a flood is stopped before it can fill
the log, and everything that can refuse stands behind the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from shopfloor.toolkit import Call

Next = Callable[[Call], Any]
Step = Callable[..., Any]


def compose(steps: Sequence[Step], last: Next) -> Next:
    """One function that walks through the steps, in order, to the last one."""
    for step in reversed(steps):
        last = partial(step, next=last)
    return last
