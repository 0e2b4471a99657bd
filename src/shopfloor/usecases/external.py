"""The context of a tool that waits on more than the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from shopfloor.domain.principals import Principal
from shopfloor.gateways import Gateways
from shopfloor.repositories.uow import Database, UnitOfWork
from shopfloor.search.index import SearchIndex

T = TypeVar("T")

Report = Callable[[float, float | None, str | None], None]


@dataclass(frozen=True, slots=True)
class ExternalContext:
    """Gives a tool the gateways and the index, and opens a unit of work whenever the tool needs one."""

    database: Database
    search: SearchIndex
    actor: Principal
    reference: int
    report: Report | None = None
    is_abandoned: Callable[[], bool] = bool
    """Returns True once the caller has disconnected, and the result is no longer needed."""
    client_session: str | None = None
    """The transport's session of the caller, if it has sessions."""
    read_only: bool = False
    """True for a tool that is declared read-only. It may still leave a note with `on_finish`."""
    deferred: list[Callable[[UnitOfWork], None]] = field(default_factory=list)

    def read(self, fn: Callable[[UnitOfWork], T]) -> T:
        """Run `fn` on a snapshot, as the caller."""
        return self.database.read(fn, self.actor, self.reference)

    def write(self, fn: Callable[[UnitOfWork], T]) -> T:
        """Run `fn` in one transaction, as the caller."""
        if self.read_only:
            raise RuntimeError("a tool that is declared read-only must not write")
        return self.database.write(fn, self.actor, self.reference)

    def on_finish(self, action: Callable[[UnitOfWork], None]) -> None:
        """Run a small action in the later transaction that logs the result, which this call does not await."""
        self.deferred.append(action)

    @property
    def session(self) -> str:
        """The caller's session. A search can skip results that the session has already been shown."""
        return f"{self.actor.key} {self.client_session or ''}"

    @property
    def gateways(self) -> Gateways:
        return self.database.gateways

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the caller, if its transport can."""
        if self.report is not None:
            self.report(done, total, message)
