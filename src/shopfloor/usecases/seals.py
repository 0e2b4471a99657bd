"""Seal the log, and verify its seals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shopfloor.domain.events import LogSealed
from shopfloor.domain.principals import SERVER
from shopfloor.domain.seals import FIRST_DIGEST, MAX_SEALED_ROWS, Seal, create_seal, find_differences
from shopfloor.repositories.uow import Database, UnitOfWork

MAX_PROBLEMS = 100
SEALS_PER_READ = 20
LOWEST_ID = -(2**63)


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of checking all seals."""

    seals: int
    rows: int
    """Number of sealed rows in the log."""
    purged: int
    """Number of sealed rows that retention has deleted."""
    unsealed: bool
    """Whether the log has rows that are not sealed yet."""
    last: Seal | None
    problems: list[str]


def seal_log(database: Database, until: int) -> int:
    """Seal the rows up to that id whose calls have ended, and return how many."""
    sealed = 0
    while True:
        # Read outside the write: on SQLite all calls wait for the writer. Settled rows do not change in between.
        seal = database.read(lambda uow: _create_next(uow, until), SERVER)
        if seal is None or not database.write(lambda uow, seal=seal: _add(uow, seal), SERVER):  # type: ignore[misc]
            return sealed
        sealed += seal.row_count


def _create_next(uow: UnitOfWork, until: int) -> Seal | None:
    before = uow.seals.find_last()
    open_id = uow.seals.find_first_open()
    horizon = until if open_id is None else min(until, open_id - 1)
    rows = uow.seals.list_rows(1 if before is None else before.last_id + 1, horizon, MAX_SEALED_ROWS)
    return create_seal(before, rows, uow.now) if rows else None


def _add(uow: UnitOfWork, seal: Seal) -> bool:
    added = uow.seals.add(seal)
    if added:
        # Webhooks get it: a digest kept elsewhere proves that the whole chain was not rewritten.
        uow.emit(LogSealed(number=seal.number, digest=seal.digest.hex(), rows=seal.row_count, last=seal.last_id))
    return added


def verify_log(read: Callable[[Callable[[UnitOfWork], list[str]]], list[str]], anchor: str | None) -> Verification:
    """Compare all sealed rows with their seals. `anchor`, as NUMBER:DIGEST, is a seal that was kept elsewhere."""
    check = _Check(anchor)
    problems: list[str] = []
    while not check.is_done and len(problems) < MAX_PROBLEMS:
        problems += read(check.run)
    return Verification(check.seals, check.rows, check.purged, check.unsealed, check.last, problems[:MAX_PROBLEMS])


class _Check:
    """The check of a chain, some seals per transaction: a long transaction would keep SQLite's WAL from being reset."""

    def __init__(self, anchor: str | None) -> None:
        number, _, digest = (anchor or "0:").partition(":")
        self._anchor = (int(number) if number.isdecimal() else 0, digest.lower())
        self.seals = self.rows = self.purged = 0
        self.unsealed = False
        self.is_done = False
        self.last: Seal | None = None
        self._has_kept = False

    def run(self, uow: UnitOfWork) -> list[str]:
        page = uow.seals.list_after(0 if self.last is None else self.last.number, SEALS_PER_READ)
        problems = [problem for seal in page for problem in self._check(uow, seal)]
        if len(page) < SEALS_PER_READ:
            self.is_done = True
            self.unsealed = uow.seals.newest_row_id() > (0 if self.last is None else self.last.last_id)
            if self._anchor[0] > self.seals:
                problems.append(f"seal {self._anchor[0]} is missing, but it was kept elsewhere")
        return problems

    def _check(self, uow: UnitOfWork, seal: Seal) -> Iterator[str]:
        before, self.last = self.last, seal
        self.seals += 1
        expected = 1 if before is None else before.number + 1
        if seal.number != expected:
            yield f"seals {expected} to {seal.number - 1} are missing"
        elif seal.previous != (FIRST_DIGEST if before is None else before.digest) or not seal.is_intact:
            yield f"seal {seal.number} was changed"
        if seal.number == self._anchor[0] and seal.digest.hex() != self._anchor[1]:
            yield f"seal {seal.number} differs from the one that was kept elsewhere"
        # The first id that a store gives is 1, but a row with any other can be added by hand.
        first_id = LOWEST_ID if before is None else before.last_id + 1
        rows = uow.seals.list_rows(first_id, seal.last_id, 2 * MAX_SEALED_ROWS)
        if seal.purged_at is None:
            self.rows += seal.row_count
            self._has_kept = True
        else:
            self.purged += seal.row_count
            # Retention deletes the oldest rows first.
            if self._has_kept:
                yield f"the rows of seal {seal.number} were removed, but not by retention"
        yield from find_differences(seal, rows)
