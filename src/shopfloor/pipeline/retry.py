"""retry: repeat calls that failed for a transient reason. The error's type decides, never its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shopfloor.domain.times import SECOND
from shopfloor.errors import CommitOutcomeUnknown, ShopfloorError, StoreUnreachable
from shopfloor.toolkit import Context

MAX_STORE_WAIT = 3 * SECOND // 2
"""How long attempts wait for a store that is away before the caller gets the error and can retry itself."""


def retry(
    next: Callable[[Context], Any],
    limit: int,
    *,
    pause: float,
    sleep: Callable[[float], object],
    elapsed: Callable[[], int],
    count: Callable[[str], None],
) -> Callable[[Context], Any]:
    """Make up to `limit` further attempts, `pause` seconds apart. `elapsed` returns microseconds."""

    def step(context: Context) -> Any:
        waited, unknown = 0, None
        for attempt in range(limit + 1):
            began = elapsed()
            try:
                return next(context)
            except ShopfloorError as error:
                if isinstance(error, CommitOutcomeUnknown):
                    unknown = error
                if isinstance(error, CommitOutcomeUnknown | StoreUnreachable):
                    waited += elapsed() - began
                # Only errors that the store or a gateway marks as transient: a rejected call would be rejected again.
                if not error.transient or attempt == limit or waited > MAX_STORE_WAIT:
                    # An earlier attempt may have committed, although this one did not.
                    if unknown is not None and isinstance(error, StoreUnreachable):
                        raise unknown from error
                    raise
                # Yields to the event loop in a greenlet; time.sleep here would block every call of the server.
                sleep(pause)
                # A caller that disconnected assumes that the call failed. Another attempt would still send its mail.
                if context.request.is_abandoned():
                    raise
            context.record.retries += 1
            count(context.tool.name)
        raise AssertionError("unreachable")

    return step
