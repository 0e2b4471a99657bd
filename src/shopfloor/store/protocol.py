"""The interface of a store, the same for both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from shopfloor.errors import ShopfloorError

T = TypeVar("T")
Row = tuple[Any, ...]
Engine = Literal["sqlite", "postgres"]
Callback = Callable[[frozenset[str]], None]

MAX_ID = 2**63 - 1
"""Above every id and time: the cursor of a first page. `id < :before` then uses the index on every page."""


class Connection(Protocol):
    """One transaction, valid only inside the function that it was passed to.

    SQL takes `:name` parameters: str, int, float, bytes, None; a bool counts as 0 or 1.
    """

    engine: Engine
    for_update: str
    skip_locked: str
    by_row_id: str
    """Placed after a table's name, makes SQLite look up row ids instead of choosing an index; for `id IN (…)`.

    Without statistics it considers `workspace = ?` more selective than 50 ids, and reads the whole table.
    """

    @property
    def counter_slot(self) -> int:
        """The row of a counter that this transaction changes: concurrent writers have different ones."""

    def execute(self, sql: str, /, **params: Any) -> int:
        """Run a statement and return the number of rows that it changed."""

    def send(self, sql: str, /, **params: Any) -> None:
        """Run a statement whose outcome is not needed.

        PostgreSQL gets it with the next statement, without a round trip of its own, and raises its error there.
        """

    def fetch_one(self, sql: str, /, **params: Any) -> Row | None:
        """Return the first row, or None."""

    def fetch_all(self, sql: str, /, **params: Any) -> list[Row]:
        """Return every row."""

    def stream(self, sql: str, /, **params: Any) -> Iterator[Row]:
        """Yield every row without holding all of them in memory. One stream at a time."""

    def savepoint(self) -> AbstractContextManager[None]:
        """Open a block that is rolled back alone if an exception leaves it; the exception propagates."""

    def see_all_workspaces(self) -> None:
        """Lift the fence between workspaces for the rest of the transaction, for backups and checks of the whole store."""

    def notify_on_commit(self, *topics: str) -> None:
        """Notify listeners of these topics once the transaction is durable. In a read it does nothing."""


class Store(Protocol):
    engine: Engine
    commit_may_be_unknown: bool

    @property
    def failure(self) -> ShopfloorError | None:
        """Why the store refuses everything until the next start; usually None."""

    def fence(self, workspace: int) -> None:
        """Hide the rows of other workspaces from all transactions from now on, where the engine can (PostgreSQL)."""

    def write(self, fn: Callable[[Connection], T]) -> T:
        """Run `fn` in one transaction and return its result once it is durable. `fn` may run more than once."""

    def read(self, fn: Callable[[Connection], T]) -> T:
        """Run `fn` on one consistent snapshot and return its result."""

    def later(self, fn: Callable[[Connection], Any], is_done: Callable[[Connection], bool] | None = None) -> None:
        """Queue `fn` for a following commit; block only while 10,000 are queued.

        `is_done` looks at the rows and returns whether `fn` has taken effect. It is called when the outcome of a commit
        is unknown.
        """

    def flush(self) -> None:
        """Return once everything given to `later` before is durable."""

    def listen(self, callback: Callback) -> Callable[[], None]:
        """Call `callback` with the topics of each commit; with no topics, anything may have changed.

        Return the function that ends it.
        """

    def credential_version(self) -> int:
        """Return a number that differs once credentials have changed; see credential_version.py."""

    def try_lead(self, workspace: int) -> bool:
        """Return whether this process leads: the leader runs what must run once per workspace."""

    def read_clock(self) -> int | None:
        """Return the time of the database in microseconds, or None if it uses this machine's clock."""

    def gauges(self) -> dict[str, float]:
        """Return the gauges for the metrics page."""

    def on_batch(self, observer: Callable[[int], None]) -> None:
        """Call `observer` with the number of writes in each commit."""

    def check(self) -> None:
        """Raise if the store cannot be reached or written to."""

    def update_statistics(self) -> None:
        """Update the planner's statistics, if the engine does not do so itself."""

    def copy_to(self, target: Path) -> None:
        """Write a consistent copy of the database to a new file, while it is in use. SQLite only."""

    def find_damage(self) -> list[str]:
        """Read everything, and return what is damaged; usually nothing."""

    def close(self) -> None:
        """Finish what is queued, then release the store."""
