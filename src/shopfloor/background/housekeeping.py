"""Housekeeping: the heartbeat of this process, the affairs of dead ones, and what is old enough to go."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from shopfloor.domain.actors import OPERATOR
from shopfloor.domain.times import DAY
from shopfloor.errors import ShopfloorError
from shopfloor.repositories.work import Work, Works
from shopfloor.usecases import decisions, processes, todos

ANSWERS_KEPT = DAY
EVENTS_KEPT = 30 * DAY
ORPHANS_KEPT = DAY
VECTORS_KEPT = 50_000
_BEAT = 5.0
_BATCH = 1000

_log = logging.getLogger("shopfloor.housekeeping")


@dataclass(frozen=True, slots=True)
class Chore:
    """Something to do every so many beats."""

    name: str
    every: int
    do: Callable[[Work], object]


def chores(subscribers: Sequence[str]) -> list[Chore]:
    """What there is to do on any floor; deliveries to others than these subscribers are left to a person in the end."""
    return [
        Chore("processes", 1, processes.bury),
        Chore("open calls", 1, lambda work: decisions.close_left_open(work, _BATCH)),
        Chore("kept answers", 12, lambda work: work.answers.forget(work.now - ANSWERS_KEPT, _BATCH)),
        Chore("lists", 12, todos.purge),
        Chore("page sessions", 12, lambda work: work.tokens.forget_pages(work.now - DAY, _BATCH)),
        Chore("old events", 12, lambda work: work.outbox.forget(work.now - EVENTS_KEPT, _BATCH)),
        Chore("orphaned deliveries", 720, lambda work: _leave_orphans(subscribers, work)),
        Chore("unused vectors", 720, lambda work: work.index.forget_vectors(VECTORS_KEPT, _BATCH)),
    ]


def _leave_orphans(subscribers: Sequence[str], work: Work) -> int:
    return work.outbox.give_up(subscribers, work.now - ORPHANS_KEPT, work.now, _BATCH)


class Housekeeper:
    """One thread that beats and keeps house."""

    def __init__(self, works: Works, chores: Sequence[Chore]) -> None:
        self._works = works
        self._chores = chores
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._register: Callable[[Work], int]

    def start(self, kind: str, url: str | None = None) -> None:
        """Register this process and begin."""
        self._register = partial(processes.register, kind=kind, url=url)
        self._works.process = self._works.write(self._register, OPERATOR)
        self._thread = threading.Thread(target=self._run, name="shopfloor-housekeeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        process = self._works.process
        if process is not None:
            self._works.write(lambda work: work.processes.remove(process), OPERATOR)
            self._works.process = None

    def _run(self) -> None:
        beat = 0
        while True:
            self._beat(beat)
            beat += 1
            if self._stopping.wait(_BEAT):
                return

    def _beat(self, beat: int) -> None:
        self._do("heartbeat", self.show_life)
        for chore in self._chores:
            if beat % chore.every == 0:
                self._do(chore.name, lambda chore=chore: self.keep(chore))  # type: ignore[misc]

    def _do(self, name: str, deed: Callable[[], object]) -> None:
        try:
            deed()
        except ShopfloorError as error:
            _log.warning("%s: %s", name, error)

    def show_life(self) -> None:
        """Beat. Who was silent for so long that others took it for dead comes back under a new number."""
        process = self._works.process
        assert process is not None
        if not self._works.write(lambda work: work.processes.beat(process, work.now), OPERATOR):
            self._works.process = self._works.write(self._register, OPERATOR)

    def keep(self, chore: Chore) -> None:
        """Do a chore until nothing is left of it, a batch at a time."""
        while self._works.write(chore.do, OPERATOR) == _BATCH and not self._stopping.is_set():
            pass
