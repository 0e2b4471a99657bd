"""Calls of the last minute to rate-limited tools, counted across replicas."""

from __future__ import annotations

from shopfloor.repositories.repository import Repository


class CallWindows(Repository):
    """Sliding windows per caller and tool."""

    def find(self, subject: str, tool: str, since: int) -> tuple[int, int | None]:
        """Return how many calls there were after `since`, and when the first of them was."""
        row = self._connection.fetch_one(
            """
            SELECT count(*), min(called_at) FROM call_window
            WHERE workspace = :workspace AND subject = :subject AND tool = :tool AND called_at > :since
            """,
            workspace=self._workspace,
            subject=subject,
            tool=tool,
            since=since,
        )
        assert row is not None
        return row[0], row[1]

    def add(self, subject: str, tool: str, now: int) -> None:
        """Count a call."""
        self._connection.send(
            """
            INSERT INTO call_window (workspace, subject, tool, called_at)
            VALUES (:workspace, :subject, :tool, :now)
            """,
            workspace=self._workspace,
            subject=subject,
            tool=tool,
            now=now,
        )

    def purge(self, before: int, limit: int) -> int:
        """Delete calls before `before` and return how many."""
        return self._connection.execute(
            """
            DELETE FROM call_window
            WHERE id IN (SELECT id FROM call_window WHERE workspace = :workspace AND called_at < :before
                ORDER BY called_at LIMIT :limit)
            """,
            workspace=self._workspace,
            before=before,
            limit=limit,
        )
