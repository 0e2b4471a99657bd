"""Seal the log in the background, once its rows have settled."""

from __future__ import annotations

import time

from shopfloor.domain.principals import OPERATOR
from shopfloor.repositories.uow import Database
from shopfloor.usecases import seals

SETTLE_SECONDS = 120.0
"""How long a row of the log must settle before it is sealed.

PostgreSQL may commit an id after a higher one, but not this much later: a transaction that is idle for 60 s is ended.
By then the count of a rate-limited call, which grows for a minute, is final too.
"""


class LogSealer:
    """Seals up to the id that was the newest two minutes ago."""

    def __init__(self) -> None:
        self._seen: tuple[float, int] | None = None

    def run(self, database: Database) -> int:
        """Seal the rows that have settled and return how many."""
        now = time.monotonic()
        if self._seen is not None and now < self._seen[0] + SETTLE_SECONDS:
            return 0
        sealed = 0 if self._seen is None else seals.seal_log(database, self._seen[1])
        self._seen = now, database.read(lambda uow: uow.seals.newest_row_id(), OPERATOR)
        return sealed
