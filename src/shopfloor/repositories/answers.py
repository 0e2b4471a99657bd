"""First answers, kept for those who ask again with the same key."""

from __future__ import annotations

from dataclasses import dataclass

from shopfloor.store.database import Connection


@dataclass(frozen=True, slots=True)
class Kept:
    """What a key was used for: the digest of its input, and the answer, or what it still waits for."""

    digest: bytes
    answer: str | None
    waiting: str | None


class Answers:
    """The kept answers of one caller."""

    def __init__(self, connection: Connection, workspace: int, caller: str) -> None:
        self._connection = connection
        self._workspace = workspace
        self._caller = caller

    def claim(self, key: str, digest: bytes, now: int) -> Kept | None:
        """None when the key was free and is now the caller's; otherwise what it was used for."""
        claimed = self._connection.execute(
            "INSERT INTO answer (workspace, caller, key, digest, created_at)"
            " VALUES (:workspace, :caller, :key, :digest, :now) ON CONFLICT (workspace, caller, key) DO NOTHING",
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

    def find(self, key: str) -> Kept | None:
        """What a key was used for, if it was used."""
        row = self._connection.one(
            "SELECT digest, answer, waiting FROM answer WHERE workspace = :workspace AND caller = :caller AND key = :key",
            workspace=self._workspace,
            caller=self._caller,
            key=key,
        )
        return None if row is None else Kept(bytes(row[0]), row[1], row[2])

    def keep(self, key: str, answer: str) -> None:
        self._connection.execute(
            "UPDATE answer SET answer = :answer WHERE workspace = :workspace AND caller = :caller AND key = :key",
            workspace=self._workspace,
            caller=self._caller,
            key=key,
            answer=answer,
        )

    def keep_waiting(self, key: str, waiting: str) -> None:
        """The call has begun something and waits for its end."""
        self._connection.execute(
            "UPDATE answer SET waiting = :waiting WHERE workspace = :workspace AND caller = :caller AND key = :key",
            workspace=self._workspace,
            caller=self._caller,
            key=key,
            waiting=waiting,
        )

    def forget(self, before: int, limit: int) -> int:
        """How many answers of the workspace, older than `before`, were dropped."""
        return self._connection.execute(
            "DELETE FROM answer WHERE (workspace, caller, key) IN (SELECT workspace, caller, key FROM answer"
            " WHERE created_at < :before AND workspace = :workspace LIMIT :limit)",
            workspace=self._workspace,
            before=before,
            limit=limit,
        )
