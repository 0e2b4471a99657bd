"""Idempotency keys and the first answer given to each."""

from __future__ import annotations

from dataclasses import dataclass

from shopfloor.store.protocol import Connection


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """The use of a key: the digest of its input, and the answer or what the call waits for."""

    digest: bytes
    answer: str | None
    waiting: str | None


class IdempotencyKeys:
    """The idempotency keys of one caller."""

    def __init__(self, connection: Connection, workspace: int, caller: str) -> None:
        self._connection = connection
        self._workspace = workspace
        self._caller = caller

    def claim(self, key: str, digest: bytes, now: int) -> IdempotencyRecord | None:
        """Claim the key. Return None if it was unused, otherwise its record."""
        # Claiming is the first write of the call: a second call with the same key waits here on PostgreSQL, and then
        # finds the answer of the first.
        claimed = self._connection.execute(
            """
            INSERT INTO answer (workspace, caller, key, digest, created_at)
            VALUES (:workspace, :caller, :key, :digest, :now)
            ON CONFLICT (workspace, caller, key) DO NOTHING
            """,
            workspace=self._workspace,
            caller=self._caller,
            key=key,
            digest=digest,
            now=now,
        )
        if claimed:
            return None
        kept = self.find(key)
        assert kept is not None
        return kept

    def add_answer(self, key: str, digest: bytes, answer: str, now: int) -> None:
        """Store the answer for a key that no other call uses, without claiming it first."""
        self._connection.send(
            """
            INSERT INTO answer (workspace, caller, key, digest, answer, created_at)
            VALUES (:workspace, :caller, :key, :digest, :answer, :now)
            """,
            workspace=self._workspace,
            caller=self._caller,
            key=key,
            digest=digest,
            answer=answer,
            now=now,
        )

    def find(self, key: str) -> IdempotencyRecord | None:
        """Return the record of a key, or None."""
        row = self._connection.fetch_one(
            """
            SELECT digest, answer, waiting FROM answer
            WHERE workspace = :workspace AND caller = :caller AND key = :key
            """,
            workspace=self._workspace,
            caller=self._caller,
            key=key,
        )
        return None if row is None else IdempotencyRecord(bytes(row[0]), row[1], row[2])

    def store_answer(self, key: str, answer: str) -> None:
        self._connection.send(
            """
            UPDATE answer SET answer = :answer
            WHERE workspace = :workspace AND caller = :caller AND key = :key
            """,
            workspace=self._workspace,
            caller=self._caller,
            key=key,
            answer=answer,
        )

    def store_waiting(self, key: str, waiting: str) -> None:
        """Record what a call that has started waits for."""
        self._connection.send(
            """
            UPDATE answer SET waiting = :waiting
            WHERE workspace = :workspace AND caller = :caller AND key = :key
            """,
            workspace=self._workspace,
            caller=self._caller,
            key=key,
            waiting=waiting,
        )

    def purge(self, before: int, limit: int) -> int:
        """Delete keys older than `before` and return how many."""
        return self._connection.execute(
            """
            DELETE FROM answer
            WHERE (workspace, caller, key) IN (SELECT workspace, caller, key FROM answer
                WHERE workspace = :workspace AND created_at < :before ORDER BY created_at LIMIT :limit)
            """,
            workspace=self._workspace,
            before=before,
            limit=limit,
        )
