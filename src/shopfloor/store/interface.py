"""What the rest of the floor may ask of a store, whichever engine is behind it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeVar

T = TypeVar("T")
Row = tuple[Any, ...]
Engine = Literal["sqlite", "postgres"]
Callback = Callable[[frozenset[str]], None]


class Connection(Protocol):
    """One transaction; only valid inside the function it was handed to.

    SQL takes `:name` parameters: str, int, float, bytes, None; a bool counts as 0 or 1.
    """

    engine: Engine
    for_update: str
    skip_locked: str

    def execute(self, sql: str, /, **params: Any) -> int:
        """The number of rows that an INSERT, UPDATE or DELETE changed."""

    def one(self, sql: str, /, **params: Any) -> Row | None:
        """The first row, if there is one."""

    def all(self, sql: str, /, **params: Any) -> list[Row]:
        """Every row."""

    def savepoint(self) -> AbstractContextManager[None]:
        """A part that is undone alone when an exception leaves it; the exception goes on up."""

    def hint(self, *topics: str) -> None:
        """Tell listeners about these topics once the transaction is durable; in a read it does nothing."""


class Store(Protocol):
    engine: Engine
    commit_may_be_unknown: bool

    def write(self, fn: Callable[[Connection], T]) -> T:
        """What `fn` returns, after its transaction is durable. `fn` may run more than once."""

    def read(self, fn: Callable[[Connection], T]) -> T:
        """What `fn` returns, having seen one consistent snapshot."""

    def later(self, fn: Callable[[Connection], Any]) -> None:
        """Put `fn` into a following commit that nobody waits for; waits only while 10,000 are queued."""

    def flush(self) -> None:
        """Return after everything given to `later` before is durable."""

    def listen(self, callback: Callback) -> Callable[[], None]:
        """The function that ends the listening. An empty set of topics means: look, anything may have changed."""

    def epoch(self) -> int | None:
        """A number that is another one once credentials have changed, in whatever process; None where nobody can tell."""

    def gauges(self) -> dict[str, float]:
        """Figures for the metrics page."""

    def on_batch(self, observer: Callable[[int], None]) -> None:
        """Call `observer` with the number of writes in each commit."""

    def check(self) -> None:
        """Raise when the store cannot be reached or written to."""

    def close(self) -> None:
        """Finish what is queued, then let go of the store."""
