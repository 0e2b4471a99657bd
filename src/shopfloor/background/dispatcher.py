"""The dispatcher: delivers what the outbox holds.

A subscriber that only touches the store runs in the transaction that strikes its delivery out: exactly once.
One with an effect outside gets a lease first, and the event's number as its idempotency key: at least once.
What fails is tried again, later and later; what keeps failing is left to a person.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat

from shopfloor.domain.actors import OPERATOR
from shopfloor.domain.events import Told
from shopfloor.domain.times import MINUTE, SECOND
from shopfloor.errors import ShopfloorError
from shopfloor.repositories.outbox import Delivery
from shopfloor.repositories.work import Work, Works

TOPIC = "outbox"
TRIES = 10
LEASE = MINUTE
BATCH = 100
OUTSIDE_BATCH = 5  # one after the other within a lease
_POLL = 5.0
_OUTSIDE_PATIENCE = 0.5
"""Seconds that the end waits for whoever is outside; what was not struck out by then is sent again."""

_log = logging.getLogger("shopfloor.dispatcher")


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Who wants to hear of which events. Exactly one of `inside` and `outside` is set."""

    name: str
    events: frozenset[str]
    inside: Callable[[Work, Told], None] | None = None
    outside: Callable[[Told], None] | None = None


def by_event(subscribers: Sequence[Subscriber]) -> dict[str, tuple[str, ...]]:
    """The names of the subscribers of each event."""
    names: dict[str, tuple[str, ...]] = {}
    for subscriber in subscribers:
        for event in subscriber.events:
            names[event] = (*names.get(event, ()), subscriber.name)
    return names


class Dispatcher:
    """One thread that delivers inside the store, and one for each subscriber outside, so that a slow one holds up
    nobody. Any number of processes may have a dispatcher."""

    def __init__(self, works: Works, subscribers: Sequence[Subscriber], backoff: int = SECOND) -> None:
        self._works = works
        self._subscribers: Mapping[str, Subscriber] = {subscriber.name: subscriber for subscriber in subscribers}
        self._backoff = backoff
        outside = [name for name, subscriber in self._subscribers.items() if subscriber.outside]
        self._rounds: list[Callable[[], int]] = [self._deliver_inside]
        self._rounds += [partial(self._deliver_outside, name) for name in outside]
        self._stirred = [threading.Event() for _ in self._rounds]
        self._stopping = False
        self._threads: list[threading.Thread] = []
        self._unlisten: Callable[[], None] = lambda: None

    @property
    def running(self) -> bool:
        return bool(self._threads) and all(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        self._unlisten = self._works.store.listen(self._heard)
        self._threads = [
            threading.Thread(target=self._run, args=round, name="shopfloor-dispatcher", daemon=True)
            for round in zip(self._rounds, self._stirred, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._unlisten()
        self._stir()
        for thread, patience in zip(self._threads, chain([None], repeat(_OUTSIDE_PATIENCE)), strict=False):
            thread.join(patience)

    def _heard(self, topics: frozenset[str]) -> None:
        if not topics or TOPIC in topics:
            self._stir()

    def _stir(self) -> None:
        for stirred in self._stirred:
            stirred.set()

    def _run(self, deliver: Callable[[], int], stirred: threading.Event) -> None:
        while not self._stopping:
            stirred.clear()
            try:
                busy = deliver() > 0
            except ShopfloorError as error:
                _log.warning("deliveries wait: %s", error)
                busy = False
            if not busy:
                stirred.wait(_POLL)

    def deliver_due(self) -> int:
        """How many deliveries were due and have been seen to."""
        return sum(deliver() for deliver in self._rounds)

    def _deliver_inside(self) -> int:
        return self._works.write(self._hand_over, OPERATOR) if self._any_due(self._inside) else 0

    def _deliver_outside(self, name: str) -> int:
        leased = self._works.write(partial(self._lease, name), OPERATOR) if self._any_due([name]) else []
        for delivery in leased:
            if self._stopping:
                break  # its lease ends, and it is taken again
            self._send(delivery)
        return len(leased)

    @property
    def _inside(self) -> list[str]:
        return [name for name, subscriber in self._subscribers.items() if subscriber.inside]

    def _any_due(self, names: Sequence[str]) -> bool:
        return self._works.read(lambda work: work.outbox.any_due(names, work.now), OPERATOR)

    def _hand_over(self, work: Work) -> int:
        due = work.outbox.due(self._inside, BATCH, work.now)
        for delivery in due:
            handler = self._subscribers[delivery.subscriber].inside
            assert handler is not None
            try:
                with work.savepoint():
                    handler(work, delivery.event)
                    work.outbox.done(delivery.event.id, delivery.subscriber)
            except ShopfloorError as error:
                if error.transient:
                    raise
                self._postpone(work, delivery, error)
            except Exception as error:  # noqa: BLE001 - a broken subscriber must not stop the others
                self._postpone(work, delivery, error)
        return len(due)

    def _lease(self, name: str, work: Work) -> list[Delivery]:
        return work.outbox.lease([name], OUTSIDE_BATCH, work.now + LEASE, work.now)

    def _send(self, delivery: Delivery) -> None:
        handler = self._subscribers[delivery.subscriber].outside
        assert handler is not None
        try:
            handler(delivery.event)
        except Exception as error:  # noqa: BLE001 - whatever the outside does, it is tried again
            failure = error
            self._works.write(lambda work: self._postpone(work, delivery, failure), OPERATOR)
        else:
            self._works.write(lambda work: work.outbox.done(delivery.event.id, delivery.subscriber), OPERATOR)

    def _postpone(self, work: Work, delivery: Delivery, error: Exception) -> None:
        tries = delivery.event.tries
        dead_at = work.now if tries >= TRIES else None
        due_at = work.now + min(self._backoff * 2 ** (tries - 1), 5 * MINUTE)
        work.outbox.postpone(
            delivery.event.id, delivery.subscriber, f"{type(error).__name__}: {error}", due_at, dead_at
        )
        _log.warning(
            "delivery %s: %s",
            "given up" if dead_at else "failed",
            error,
            extra={"event": delivery.event.name, "subscriber": delivery.subscriber, "tries": tries},
        )
