"""Events and their deliveries."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shopfloor.domain.events import Event, StoredEvent
from shopfloor.repositories.repository import Repository
from shopfloor.store.protocol import MAX_ID, Row

_INSERT_EVENT = """
    INSERT INTO event (workspace, name, data, topics, reference, created_at)
    VALUES (:workspace, :name, :data, :topics, :reference, :now)
"""

UNREADABLE: dict[str, Any] = {}
"""The data of an event whose row is damaged."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event that has not been delivered to one subscriber."""

    subscriber: str
    event: StoredEvent
    error: str | None
    dead_at: int | None


class Outbox(Repository):
    """The events of a workspace, and their deliveries."""

    def add(self, event: Event, subscribers: tuple[str, ...], reference: int, now: int) -> None:
        """Add an event, and a delivery for each subscriber."""
        values = {
            "workspace": self._workspace,
            "name": event.name,
            "data": json.dumps(event.data()),
            "topics": " ".join(event.topics()),
            "reference": reference or None,
            "now": now,
        }
        if not subscribers:
            self._connection.send(_INSERT_EVENT, **values)
            return
        row = self._connection.fetch_one(f"{_INSERT_EVENT} RETURNING id", **values)
        assert row is not None
        self._connection.notify_on_commit("outbox")
        for subscriber in subscribers:
            self._connection.send(
                """
                INSERT INTO delivery (workspace, event, subscriber, due_at)
                VALUES (:workspace, :event, :subscriber, :now)
                """,
                workspace=self._workspace,
                event=row[0],
                subscriber=subscriber,
                now=now,
            )

    def claim_due(self, subscribers: Sequence[str], limit: int, now: int) -> list[Delivery]:
        """Return due deliveries of these subscribers; other dispatchers skip them until the transaction ends."""
        due = self._list_due(subscribers, limit, now)
        return self._begin_attempts([(event, subscriber) for event, subscriber, _ in due], now, now)

    def lease_due(self, subscribers: Sequence[str], limit: int, until: int, now: int, max_tries: int) -> list[Delivery]:
        """Lease due deliveries of these subscribers until `until` and return them.

        An attempt whose process died counts, and has no outcome: after `max_tries` such attempts a delivery becomes a
        dead letter. A delivery that was attempted before is leased alone, so that a crash counts against no other.
        """
        due = self._list_due(subscribers, limit, now)
        for event, subscriber, tries in due:
            if tries >= max_tries:
                self.postpone(event, subscriber, "The process ended during the last attempt", now, now)
        leasable = [(event, subscriber) for event, subscriber, tries in due if tries < max_tries]
        untried = [(event, subscriber) for event, subscriber, tries in due if tries == 0]
        is_retry = leasable[:1] != untried[:1]
        return self._begin_attempts(leasable[:1] if is_retry else untried, until, now)

    def has_due(self, subscribers: Sequence[str], now: int) -> bool:
        names = _name_parameters(subscribers)
        row = self._connection.fetch_one(
            f"""
            SELECT 1 FROM delivery
            WHERE workspace = :workspace
              AND dead_at IS NULL
              AND due_at <= :now
              AND subscriber IN ({_parameters(names)})
            LIMIT 1
            """,
            workspace=self._workspace,
            now=now,
            **names,
        )
        return row is not None

    def _list_due(self, subscribers: Sequence[str], limit: int, now: int) -> list[tuple[int, str, int]]:
        """Lock due deliveries and return the event, the subscriber and the number of attempts of each."""
        names = _name_parameters(subscribers)
        rows = self._connection.fetch_all(
            f"""
            SELECT event, subscriber, tries FROM delivery
            WHERE workspace = :workspace
              AND dead_at IS NULL
              AND due_at <= :now
              AND subscriber IN ({_parameters(names)})
            ORDER BY due_at LIMIT :limit {self._connection.skip_locked}
            """,
            workspace=self._workspace,
            now=now,
            limit=limit,
            **names,
        )
        return [(event, subscriber, tries) for event, subscriber, tries in rows]

    def _begin_attempts(self, due: Sequence[tuple[int, str]], until: int, now: int) -> list[Delivery]:
        # Counted when the attempt starts, so that one whose process dies counts too.
        for event, subscriber in due:
            self._connection.execute(
                """
                UPDATE delivery SET due_at = :until, tries = tries + 1
                WHERE workspace = :workspace AND event = :event AND subscriber = :subscriber
                """,
                workspace=self._workspace,
                event=event,
                subscriber=subscriber,
                until=until,
            )
        begun = [delivery for event, subscriber in due if (delivery := self.find_delivery(event, subscriber))]
        for delivery in begun:
            # One damaged row must not keep later events from their subscribers.
            if delivery.event.data is UNREADABLE:
                self.postpone(delivery.event.id, delivery.subscriber, "The event cannot be read", now, now)
        return [delivery for delivery in begun if delivery.event.data is not UNREADABLE]

    def find_delivery(self, event: int, subscriber: str) -> Delivery | None:
        row = self._connection.fetch_one(
            """
            SELECT event.id, event.name, event.data, event.reference, event.created_at, delivery.tries,
                delivery.error, delivery.dead_at
            FROM delivery
            JOIN event ON event.workspace = delivery.workspace AND event.id = delivery.event
            WHERE delivery.workspace = :workspace
              AND delivery.event = :event
              AND delivery.subscriber = :subscriber
            """,
            workspace=self._workspace,
            event=event,
            subscriber=subscriber,
        )
        if row is None:
            return None
        id, name, data, reference, created_at, tries, error, dead_at = row
        return Delivery(
            subscriber, StoredEvent(id, name, _load_data(data), reference, created_at, tries), error, dead_at
        )

    def delete_delivery(self, event: int, subscriber: str) -> bool:
        """Delete a finished delivery. Return False if it was already deleted."""
        struck = self._connection.execute(
            """
            DELETE FROM delivery
            WHERE workspace = :workspace AND event = :event AND subscriber = :subscriber
            """,
            workspace=self._workspace,
            event=event,
            subscriber=subscriber,
        )
        return struck == 1

    def postpone(self, event: int, subscriber: str, error: str, due_at: int, dead_at: int | None) -> None:
        """Schedule the next attempt or, with `dead_at`, make the delivery a dead letter."""
        self._connection.notify_on_commit(*(["outbox:dead"] if dead_at else []))
        self._connection.execute(
            """
            UPDATE delivery SET due_at = :due_at, error = :error, dead_at = :dead_at
            WHERE workspace = :workspace AND event = :event AND subscriber = :subscriber
            """,
            workspace=self._workspace,
            event=event,
            subscriber=subscriber,
            error=error,
            due_at=due_at,
            dead_at=dead_at,
        )

    def make_due(self, pauses: Sequence[int], now: int, limit: int) -> int:
        """Make deliveries due now that would wait longer than `pauses[tries]`, and return how many."""
        latest = {f"latest{tries}": now + pause for tries, pause in enumerate(pauses)}
        return self._connection.execute(
            f"""
            WITH allowed (tries, latest) AS (
                VALUES {", ".join(f"({tries}, :{name})" for tries, name in enumerate(latest))}
            )
            UPDATE delivery SET due_at = :now
            WHERE workspace = :workspace
              AND (event, subscriber) IN (SELECT early.event, early.subscriber
                FROM allowed
                JOIN delivery AS early ON early.tries = allowed.tries AND early.due_at > allowed.latest
                WHERE early.workspace = :workspace AND early.dead_at IS NULL LIMIT :limit)
            """,
            workspace=self._workspace,
            now=now,
            limit=limit,
            **latest,
        )

    def give_up_orphans(self, known: Sequence[str], before: int, now: int, limit: int) -> int:
        """Make deliveries to unknown subscribers that were due before `before` dead letters, and return how many."""
        names = _name_parameters(known)
        return self._connection.execute(
            f"""
            UPDATE delivery SET dead_at = :now, error = 'Unknown subscriber'
            WHERE workspace = :workspace
              AND (event, subscriber) IN (SELECT event, subscriber FROM delivery
                WHERE workspace = :workspace AND dead_at IS NULL AND due_at < :before
                AND subscriber NOT IN ({_parameters(names)}) LIMIT :limit)
            """,
            workspace=self._workspace,
            before=before,
            now=now,
            limit=limit,
            **names,
        )

    def list_dead(self, limit: int, before: int | None = None) -> list[Delivery]:
        """Return dead letters, newest event first."""
        rows = self._connection.fetch_all(
            """
            SELECT event, subscriber FROM delivery
            WHERE workspace = :workspace AND dead_at IS NOT NULL AND event < :before
            ORDER BY event DESC, subscriber LIMIT :limit
            """,
            workspace=self._workspace,
            limit=limit,
            before=MAX_ID if before is None else before,
        )
        return [delivery for event, subscriber in rows if (delivery := self.find_delivery(event, subscriber))]

    def revive(self, event: int, subscriber: str, now: int) -> bool:
        """Schedule a dead letter again. Return False if it is not one."""
        revived = self._connection.execute(
            """
            UPDATE delivery SET dead_at = NULL, tries = 0, due_at = :now
            WHERE workspace = :workspace
              AND event = :event
              AND subscriber = :subscriber
              AND dead_at IS NOT NULL
            """,
            workspace=self._workspace,
            event=event,
            subscriber=subscriber,
            now=now,
        )
        self._connection.notify_on_commit("outbox", "outbox:dead")
        return revived == 1

    def revive_all(self, subscriber: str | None, limit: int, now: int) -> int:
        """Schedule dead letters again, of one subscriber or of all, oldest first, and return how many."""
        revived = self._connection.execute(
            f"""
            UPDATE delivery SET dead_at = NULL, tries = 0, due_at = :now
            WHERE workspace = :workspace AND dead_at IS NOT NULL AND (event, subscriber) IN (
                SELECT event, subscriber FROM delivery
                WHERE workspace = :workspace AND dead_at IS NOT NULL
                  {"" if subscriber is None else "AND subscriber = :subscriber"}
                ORDER BY dead_at LIMIT :limit)
            """,
            workspace=self._workspace,
            limit=limit,
            now=now,
            **({} if subscriber is None else {"subscriber": subscriber}),
        )
        self._connection.notify_on_commit("outbox", "outbox:dead")
        return revived

    def count_backlog(self) -> tuple[int, int]:
        """Count the deliveries that wait and the dead letters, each up to 10,000."""
        row = self._connection.fetch_one(
            """
            SELECT (SELECT count(*) FROM (SELECT 1 FROM delivery WHERE workspace = :workspace
                AND dead_at IS NULL LIMIT 10000) AS waiting), (SELECT count(*) FROM (SELECT 1 FROM delivery
                WHERE workspace = :workspace AND dead_at IS NOT NULL LIMIT 10000) AS dead)
            """,
            workspace=self._workspace,
        )
        assert row is not None
        return int(row[0]), int(row[1])

    def list_recent(self, limit: int) -> list[StoredEvent]:
        """Return the newest events, newest first."""
        rows = self._connection.fetch_all(
            """
            SELECT id, name, data, reference, created_at FROM event
            WHERE workspace = :workspace
            ORDER BY id DESC LIMIT :limit
            """,
            workspace=self._workspace,
            limit=limit,
        )
        return [_to_event(row) for row in rows]

    def list_caused_by(self, reference: int, limit: int) -> list[tuple[StoredEvent, list[Delivery]]]:
        """Return the events of one call, in order, each with its open deliveries."""
        rows = self._connection.fetch_all(
            """
            SELECT id, name, data, reference, created_at FROM event
            WHERE workspace = :workspace AND reference = :reference
            ORDER BY id LIMIT :limit
            """,
            workspace=self._workspace,
            reference=reference,
            limit=limit,
        )
        caused = []
        for event in map(_to_event, rows):
            names = self._connection.fetch_all(
                """
                SELECT subscriber FROM delivery
                WHERE workspace = :workspace AND event = :event
                ORDER BY subscriber
                """,
                workspace=self._workspace,
                event=event.id,
            )
            found = [self.find_delivery(event.id, name) for (name,) in names]
            caused.append((event, [delivery for delivery in found if delivery is not None]))
        return caused

    def list_topics_since(self, id: int, limit: int) -> tuple[int, frozenset[str] | None]:
        """Return the newest event's id and the topics of events after `id`; None for more than `limit` of them."""
        rows = self._connection.fetch_all(
            """
            SELECT id, topics FROM event
            WHERE workspace = :workspace AND id > :id
            ORDER BY id LIMIT :limit
            """,
            workspace=self._workspace,
            id=id,
            limit=limit,
        )
        if len(rows) == limit:
            return self.newest_id(), None
        topics = frozenset(topic for _, text in rows for topic in text.split())
        return (rows[-1][0] if rows else id), topics

    def newest_id(self) -> int:
        row = self._connection.fetch_one(
            "SELECT coalesce(max(id), 0) FROM event WHERE workspace = :workspace", workspace=self._workspace
        )
        assert row is not None
        return int(row[0])

    def purge(self, before: int, limit: int, after: int = 0) -> tuple[int, int]:
        """Examine the next `limit` events after the id `after`, and delete those that are delivered and older than
        `before`. Return the number of older events examined, and the id after which the next call continues.
        """
        # Check one row first: the oldest event is rarely old, and reading 1,000 rows would be wasted.
        oldest = self._list_old(before, 1, after) and self._list_old(before, limit, after)
        if not oldest:
            return 0, after
        span = {"workspace": self._workspace, "after": after, "last": oldest[-1]}
        # The span is given twice: without it PostgreSQL reads all deliveries into a hash table.
        self._connection.execute(
            """
            DELETE FROM event
            WHERE workspace = :workspace
              AND id > :after
              AND id <= :last
              AND created_at < :before
              AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.workspace = :workspace
                AND delivery.event = event.id AND delivery.event > :after AND delivery.event <= :last)
            """,
            before=before,
            **span,
        )
        rows = self._connection.fetch_all(
            """
            SELECT DISTINCT event FROM delivery
            WHERE workspace = :workspace AND event > :after AND event <= :last
            """,
            **span,
        )
        # Events with a dead letter stay, and later rounds skip them. Skip only those before the first deleted event:
        # the deletion may still be rolled back.
        undelivered = {event for (event,) in rows}
        kept = list(itertools.takewhile(undelivered.__contains__, oldest))
        return len(oldest), kept[-1] if kept else after

    def _list_old(self, before: int, limit: int, after: int) -> list[int]:
        """Return which of the next `limit` events are older than `before`."""
        rows = self._connection.fetch_all(
            """
            SELECT id, created_at FROM event
            WHERE workspace = :workspace AND id > :after
            ORDER BY id LIMIT :limit
            """,
            workspace=self._workspace,
            after=after,
            limit=limit,
        )
        return [id for id, created_at in rows if created_at < before]


def _name_parameters(subscribers: Sequence[str]) -> dict[str, str]:
    return {f"name{number}": name for number, name in enumerate(subscribers)}


def _parameters(names: Iterable[str]) -> str:
    return ", ".join(f":{name}" for name in names) or "''"


def _to_event(row: Row) -> StoredEvent:
    id, name, data, reference, created_at = row
    return StoredEvent(id, name, _load_data(data), reference, created_at, 0)


def _load_data(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return UNREADABLE
    return data if isinstance(data, dict) else UNREADABLE
