"""The dispatcher: delivers the events of the outbox to their subscribers.

A subscriber that only touches the store runs in the transaction that deletes its delivery: exactly once. One with an
external effect leases the delivery first, and gets the event's number as its idempotency key: at least once. A failed
delivery is retried with backoff, and becomes a dead letter after MAX_ATTEMPTS.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat

from shopfloor.background.topics import TopicHub
from shopfloor.domain.events import StoredEvent
from shopfloor.domain.principals import OPERATOR
from shopfloor.domain.times import MINUTE, SECOND
from shopfloor.errors import ShopfloorError
from shopfloor.repositories.outbox import Delivery
from shopfloor.repositories.uow import Database, UnitOfWork

TOPIC = "outbox"
MAX_ATTEMPTS = 10
EXTERNAL_PAUSES_SECONDS = (1, 5, 30, 300, 1_800, 3_600, 7_200, 14_400, 28_800)
"""Pauses between attempts at an external subscriber: 15 hours in total, so that a receiver may be down overnight."""
LEASE_DURATION = MINUTE
LONGEST_PAUSES = (0, *(max(seconds * SECOND, LEASE_DURATION) for seconds in EXTERNAL_PAUSES_SECONDS))
"""The longest wait of a delivery in microseconds, by the number of attempts so far."""
MAX_TRANSACTIONAL_BATCH = 100
# They are sent one after the other within a lease of one minute, and a webhook may take 8 s.
MAX_EXTERNAL_BATCH = 5
POLL_SECONDS = 5.0
STOP_TIMEOUT_SECONDS = 0.5
"""How long stopping waits for an external subscriber; a delivery not deleted by then is sent again."""

_log = logging.getLogger("shopfloor.dispatcher")


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A subscriber to events. Exactly one of `in_transaction` and `external` is set."""

    name: str
    events: frozenset[str]
    in_transaction: Callable[[UnitOfWork, StoredEvent], None] | None = None
    external: Callable[[StoredEvent], None] | None = None
    concurrency: int = 1
    """Threads that deliver to an external subscriber. With more than one, events may arrive out of order."""


def map_subscribers_by_event(subscribers: Sequence[Subscriber]) -> dict[str, tuple[str, ...]]:
    """Return the names of the subscribers of each event."""
    names: dict[str, tuple[str, ...]] = {}
    for subscriber in subscribers:
        for event in subscriber.events:
            names[event] = (*names.get(event, ()), subscriber.name)
    return names


def _delete_delivery(uow: UnitOfWork, delivery: Delivery) -> None:
    uow.outbox.delete_delivery(delivery.event.id, delivery.subscriber)


class Dispatcher:
    """One thread for all transactional subscribers, and some for each external subscriber, so that a slow one delays no
    other. Any number of processes may have a dispatcher."""

    def __init__(
        self, database: Database, subscribers: Sequence[Subscriber], topics: TopicHub, backoff: int = SECOND
    ) -> None:
        self._database = database
        self._topics = topics
        self._subscribers: Mapping[str, Subscriber] = {subscriber.name: subscriber for subscriber in subscribers}
        self._backoff = backoff
        external = [
            name
            for name, subscriber in self._subscribers.items()
            for _ in range(subscriber.concurrency)
            if subscriber.external
        ]
        self._rounds: list[Callable[[], int]] = [self._deliver_in_transaction]
        self._rounds += [partial(self._deliver_external, name) for name in external]
        self._wakeups = [threading.Event() for _ in self._rounds]
        self._stopping = False
        self._threads: list[threading.Thread] = []
        self._unsubscribe: Callable[[], None] = lambda: None

    @property
    def running(self) -> bool:
        return bool(self._threads) and all(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        self._unsubscribe = self._topics.subscribe(lambda _: self._wake(), TOPIC)
        self._threads = [
            threading.Thread(target=self._run_loop, args=round, name="shopfloor-dispatcher", daemon=True)
            for round in zip(self._rounds, self._wakeups, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._unsubscribe()
        self._wake()
        for thread, patience in zip(self._threads, chain([None], repeat(STOP_TIMEOUT_SECONDS)), strict=False):
            thread.join(patience)

    def _wake(self) -> None:
        for wakeup in self._wakeups:
            wakeup.set()

    def _run_loop(self, deliver: Callable[[], int], wakeup: threading.Event) -> None:
        while not self._stopping:
            # Cleared before the query: an event that commits during the round sets it again. The poll finds deliveries
            # that become due by time, and those whose wake-up was lost: wake-ups are hints, the rows are the truth.
            wakeup.clear()
            try:
                busy = deliver() > 0
            except ShopfloorError as error:
                _log.warning("cannot deliver: %s", error)
                busy = False
            except Exception:  # noqa: BLE001 - the thread must live, or its subscriber gets no more events
                _log.exception("cannot deliver")
                busy = False
            if not busy:
                wakeup.wait(POLL_SECONDS)

    def deliver_due(self) -> int:
        """Attempt every due delivery once and return the number of attempts."""
        return sum(deliver() for deliver in self._rounds)

    def _deliver_in_transaction(self) -> int:
        # A read first: an idle dispatcher must not take the write lock every few seconds.
        return self._database.write(self._hand_over, OPERATOR) if self._has_due(self._transactional) else 0

    def _deliver_external(self, name: str) -> int:
        if not self._has_due([name]):
            return 0

        def lease(uow: UnitOfWork) -> list[Delivery]:
            return uow.outbox.lease_due([name], MAX_EXTERNAL_BATCH, uow.now + LEASE_DURATION, uow.now, MAX_ATTEMPTS)

        # The lease is committed before anything is sent: no transaction stays open while a receiver takes its time.
        leased = self._database.write(lease, OPERATOR)
        for delivery in leased:
            # The leases of the rest expire, and they are delivered later.
            if self._stopping:
                break
            handler = self._subscribers[name].external
            assert handler is not None
            try:
                handler(delivery.event)
            except Exception as error:  # noqa: BLE001 - any external failure is retried
                self._database.write(partial(self._postpone, delivery=delivery, error=error), OPERATOR)
            else:
                self._database.write(partial(_delete_delivery, delivery=delivery), OPERATOR)
        return len(leased)

    @property
    def _transactional(self) -> list[str]:
        return [name for name, subscriber in self._subscribers.items() if subscriber.in_transaction]

    def _has_due(self, names: Sequence[str]) -> bool:
        return self._database.read(lambda uow: uow.outbox.has_due(names, uow.now), OPERATOR)

    def _hand_over(self, uow: UnitOfWork) -> int:
        due = uow.outbox.claim_due(self._transactional, MAX_TRANSACTIONAL_BATCH, uow.now)
        for delivery in due:
            handler = self._subscribers[delivery.subscriber].in_transaction
            assert handler is not None
            try:
                with uow.savepoint():
                    handler(uow, delivery.event)
                    _delete_delivery(uow, delivery)
            except ShopfloorError as error:
                # The store is away, and the whole transaction runs again. The subscriber did not fail.
                if error.transient:
                    raise
                self._postpone(uow, delivery, error)
            except Exception as error:  # noqa: BLE001 - a broken subscriber must not stop the others
                self._postpone(uow, delivery, error)
        return len(due)

    def _postpone(self, uow: UnitOfWork, delivery: Delivery, error: Exception) -> None:
        tries = delivery.event.tries
        dead_at = uow.now if tries >= MAX_ATTEMPTS else None
        if self._subscribers[delivery.subscriber].external is None:
            pause = min(self._backoff * 2 ** (tries - 1), 5 * MINUTE)
        else:
            pause = self._backoff * EXTERNAL_PAUSES_SECONDS[min(tries, len(EXTERNAL_PAUSES_SECONDS)) - 1]
        due_at = uow.now + pause
        uow.outbox.postpone(delivery.event.id, delivery.subscriber, f"{type(error).__name__}: {error}", due_at, dead_at)
        _log.warning(
            "delivery %s: %s",
            "given up" if dead_at else "failed",
            error,
            extra={"event": delivery.event.name, "subscriber": delivery.subscriber, "tries": tries},
        )
