"""retry: what may work in a moment is tried again, by the type of the error, never by its words."""

from __future__ import annotations

from collections.abc import Callable

from shopfloor.errors import ShopfloorError
from shopfloor.pipeline import Next, Step
from shopfloor.toolkit import Answer, Call


def retry(limit: int, *, pause: float, sleep: Callable[[float], object], counted: Callable[[str], None]) -> Step:
    """The step that makes up to `limit` further attempts, `pause` seconds apart."""

    def step(call: Call, next: Next) -> Answer:
        for attempt in range(limit + 1):
            try:
                return next(call)  # type: ignore[no-any-return]
            except ShopfloorError as error:
                if not error.transient or attempt == limit:
                    raise
            call.retries += 1
            counted(call.name)
            sleep(pause)
        raise AssertionError("unreachable")

    return step
