"""Events and their deliveries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shopfloor.domain.events import Event, Told
from shopfloor.store.database import Connection, Row


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event that one subscriber has still to hear of."""

    subscriber: str
    event: Told
    error: str | None
    dead_at: int | None


class Outbox:
    """What happened in a workspace, and who still has to be told."""

    def __init__(self, connection: Connection, workspace: int) -> None:
        self._connection = connection
        self._workspace = workspace

    def add(self, event: Event, subscribers: tuple[str, ...], reference: int, now: int) -> int:
        row = self._connection.one(
            "INSERT INTO event (workspace, name, data, topics, reference, created_at)"
            " VALUES (:workspace, :name, :data, :topics, :reference, :now) RETURNING id",
            workspace=self._workspace,
            name=event.name,
            data=json.dumps(event.data()),
            topics=" ".join(event.topics()),
            reference=reference or None,
            now=now,
        )
        assert row is not None
        if subscribers:
            self._connection.hint("outbox")
        for subscriber in subscribers:
            self._connection.execute(
                "INSERT INTO delivery (workspace, event, subscriber, due_at)"
                " VALUES (:workspace, :event, :subscriber, :now)",
                workspace=self._workspace,
                event=row[0],
                subscriber=subscriber,
                now=now,
            )
        return int(row[0])

    def due(self, subscribers: Sequence[str], limit: int, now: int) -> list[Delivery]:
        """Due deliveries of these subscribers; other dispatchers pass over them while this work lasts."""
        return self._take(subscribers, limit, now, now)

    def lease(self, subscribers: Sequence[str], limit: int, until: int, now: int) -> list[Delivery]:
        """Due deliveries of these subscribers, kept from other dispatchers until the lease ends."""
        return self._take(subscribers, limit, until, now)

    def any_due(self, subscribers: Sequence[str], now: int) -> bool:
        names = _numbered(subscribers)
        row = self._connection.one(
            "SELECT 1 FROM delivery WHERE workspace = :workspace AND dead_at IS NULL"
            f" AND due_at <= :now AND subscriber IN ({_parameters(names)}) LIMIT 1",
            workspace=self._workspace,
            now=now,
            **names,
        )
        return row is not None

    def _take(self, subscribers: Sequence[str], limit: int, until: int, now: int) -> list[Delivery]:
        names = _numbered(subscribers)
        rows = self._connection.all(
            "SELECT event, subscriber FROM delivery WHERE workspace = :workspace AND dead_at IS NULL"
            f" AND due_at <= :now AND subscriber IN ({_parameters(names)})"
            f" ORDER BY due_at LIMIT :limit {self._connection.skip_locked}",
            workspace=self._workspace,
            now=now,
            limit=limit,
            **names,
        )
        for event, subscriber in rows:
            self._try(event, subscriber, until)
        return [delivery for event, subscriber in rows if (delivery := self.find(event, subscriber))]

    def _try(self, event: int, subscriber: str, until: int) -> None:
        self._connection.execute(
            "UPDATE delivery SET due_at = :until, tries = tries + 1"
            " WHERE workspace = :workspace AND event = :event AND subscriber = :subscriber",
            workspace=self._workspace,
            event=event,
            subscriber=subscriber,
            until=until,
        )

    def find(self, event: int, subscriber: str) -> Delivery | None:
        row = self._connection.one(
            "SELECT event.id, event.name, event.data, event.reference, event.created_at, delivery.tries,"
            " delivery.error, delivery.dead_at FROM delivery JOIN event"
            " ON event.workspace = delivery.workspace AND event.id = delivery.event WHERE delivery.workspace = :workspace"
            " AND delivery.event = :event AND delivery.subscriber = :subscriber",
            workspace=self._workspace,
            event=event,
            subscriber=subscriber,
        )
        if row is None:
            return None
        id, name, data, reference, created_at, tries, error, dead_at = row
        return Delivery(subscriber, Told(id, name, json.loads(data), reference, created_at, tries), error, dead_at)

    def done(self, event: int, subscriber: str) -> bool:
        """Strike a delivery out; false when it was done before."""
        struck = self._connection.execute(
            "DELETE FROM delivery WHERE workspace = :workspace AND event = :event AND subscriber = :subscriber",
            workspace=self._workspace,
            event=event,
            subscriber=subscriber,
        )
        return struck == 1

    def postpone(self, event: int, subscriber: str, error: str, due_at: int, dead_at: int | None) -> None:
        """Try again later, or, with `dead_at`, leave it to a person."""
        self._connection.hint(*(["outbox:dead"] if dead_at else []))
        self._connection.execute(
            "UPDATE delivery SET due_at = :due_at, error = :error, dead_at = :dead_at"
            " WHERE workspace = :workspace AND event = :event AND subscriber = :subscriber",
            workspace=self._workspace,
            event=event,
            subscriber=subscriber,
            error=error,
            due_at=due_at,
            dead_at=dead_at,
        )

    def give_up(self, known: Sequence[str], before: int, now: int, limit: int) -> int:
        """How many deliveries, due before then, to subscribers that nobody knows any more were left to a person."""
        names = _numbered(known)
        return self._connection.execute(
            "UPDATE delivery SET dead_at = :now, error = 'Nobody takes these any more' WHERE workspace = :workspace"
            " AND (event, subscriber) IN (SELECT event, subscriber FROM delivery WHERE workspace = :workspace"
            f" AND dead_at IS NULL AND due_at < :before AND subscriber NOT IN ({_parameters(names)}) LIMIT :limit)",
            workspace=self._workspace,
            before=before,
            now=now,
            limit=limit,
            **names,
        )

    def dead(self, limit: int, before: int | None = None) -> list[Delivery]:
        """Deliveries that were given up, newest event first."""
        rows = self._connection.all(
            "SELECT event, subscriber FROM delivery WHERE workspace = :workspace AND dead_at IS NOT NULL"
            " AND event < :before ORDER BY event DESC, subscriber LIMIT :limit",
            workspace=self._workspace,
            limit=limit,
            before=2**62 if before is None else before,
        )
        return [delivery for event, subscriber in rows if (delivery := self.find(event, subscriber))]

    def revive(self, event: int, subscriber: str, now: int) -> bool:
        """Try a dead delivery again; false when it is not dead."""
        revived = self._connection.execute(
            "UPDATE delivery SET dead_at = NULL, tries = 0, due_at = :now"
            " WHERE workspace = :workspace AND event = :event AND subscriber = :subscriber AND dead_at IS NOT NULL",
            workspace=self._workspace,
            event=event,
            subscriber=subscriber,
            now=now,
        )
        self._connection.hint("outbox", "outbox:dead")
        return revived == 1

    def backlog(self) -> tuple[int, int]:
        """How many deliveries wait (up to 10,000 are counted), and how many are dead."""
        row = self._connection.one(
            "SELECT (SELECT count(*) FROM (SELECT 1 FROM delivery WHERE workspace = :workspace AND dead_at IS NULL"
            " LIMIT 10000) AS waiting), (SELECT count(*) FROM (SELECT 1 FROM delivery WHERE workspace = :workspace"
            " AND dead_at IS NOT NULL LIMIT 10000) AS dead)",
            workspace=self._workspace,
        )
        assert row is not None
        return int(row[0]), int(row[1])

    def recent(self, limit: int) -> list[Told]:
        """What happened last, newest first."""
        rows = self._connection.all(
            "SELECT id, name, data, reference, created_at FROM event WHERE workspace = :workspace"
            " ORDER BY id DESC LIMIT :limit",
            workspace=self._workspace,
            limit=limit,
        )
        return [_told(row) for row in rows]

    def caused_by(self, reference: int, limit: int) -> list[tuple[Told, list[Delivery]]]:
        """The events of one call, in their order, each with the deliveries that are not done."""
        rows = self._connection.all(
            "SELECT id, name, data, reference, created_at FROM event"
            " WHERE workspace = :workspace AND reference = :reference ORDER BY id LIMIT :limit",
            workspace=self._workspace,
            reference=reference,
            limit=limit,
        )
        return [(told, self._left(told.id)) for told in map(_told, rows)]

    def _left(self, event: int) -> list[Delivery]:
        rows = self._connection.all(
            "SELECT subscriber FROM delivery WHERE workspace = :workspace AND event = :event ORDER BY subscriber",
            workspace=self._workspace,
            event=event,
        )
        return [delivery for (subscriber,) in rows if (delivery := self.find(event, subscriber))]

    def stirred_since(self, id: int, limit: int) -> tuple[int, frozenset[str] | None]:
        """The newest event, and the topics of those after one; None when there are more than `limit`."""
        rows = self._connection.all(
            "SELECT id, topics FROM event WHERE workspace = :workspace AND id > :id ORDER BY id LIMIT :limit",
            workspace=self._workspace,
            id=id,
            limit=limit,
        )
        if len(rows) == limit:
            return self.newest(), None
        topics = frozenset(topic for _, text in rows for topic in text.split())
        return (rows[-1][0] if rows else id), topics

    def newest(self) -> int:
        row = self._connection.one(
            "SELECT coalesce(max(id), 0) FROM event WHERE workspace = :workspace", workspace=self._workspace
        )
        assert row is not None
        return int(row[0])

    def forget(self, before: int, limit: int) -> int:
        """How many delivered events, older than `before`, were dropped. Only the oldest ones are looked at."""
        return self._connection.execute(
            "DELETE FROM event WHERE workspace = :workspace AND id IN (SELECT id FROM"
            " (SELECT id, created_at FROM event WHERE workspace = :workspace ORDER BY id LIMIT :limit"
            " + (SELECT count(*) FROM delivery WHERE workspace = :workspace AND dead_at IS NOT NULL)) AS oldest"
            " WHERE created_at < :before AND NOT EXISTS (SELECT 1 FROM delivery"
            " WHERE delivery.workspace = :workspace AND delivery.event = oldest.id) ORDER BY id LIMIT :limit)",
            workspace=self._workspace,
            before=before,
            limit=limit,
        )


def _numbered(subscribers: Sequence[str]) -> dict[str, str]:
    return {f"name{number}": name for number, name in enumerate(subscribers)}


def _parameters(names: Iterable[str]) -> str:
    return ", ".join(f":{name}" for name in names) or "''"


def _told(row: Row) -> Told:
    id, name, data, reference, created_at = row
    return Told(id, name, json.loads(data), reference, created_at, 0)
