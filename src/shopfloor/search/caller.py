"""The caller of a search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from shopfloor.repositories.uow import UnitOfWork

T = TypeVar("T")


class Caller(Protocol):
    """What a search needs of its caller: its session, reading with the caller's rights, and reporting progress."""

    @property
    def session(self) -> str:
        """The session in which the caller is shown results."""

    def read(self, fn: Callable[[UnitOfWork], T]) -> T:
        """Run `fn` on a snapshot, as the caller."""

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress."""
