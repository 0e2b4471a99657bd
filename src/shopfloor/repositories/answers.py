"""First answers, kept for those who ask again with the same key."""

from __future__ import annotations

from shopfloor.store.database import Connection


class Answers:
    """The kept answers of one caller."""

    def __init__(self, connection: Connection, workspace: int, caller: str) -> None:
        self._connection = connection
        self._workspace = workspace
        self._caller = caller

    def claim(self, key: str, digest: bytes, now: int) -> tuple[bytes, str | None] | None:
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
        row = self._connection.one(
            "SELECT digest, answer FROM answer WHERE workspace = :workspace AND caller = :caller AND key = :key",
            workspace=self._workspace,
            caller=self._caller,
            key=key,
        )
        assert row is not None
        return bytes(row[0]), row[1]

    def keep(self, key: str, answer: str) -> None:
        self._connection.execute(
            "UPDATE answer SET answer = :answer WHERE workspace = :workspace AND caller = :caller AND key = :key",
            workspace=self._workspace,
            caller=self._caller,
            key=key,
            answer=answer,
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
