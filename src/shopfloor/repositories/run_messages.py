"""Messages from people to runs."""

from __future__ import annotations

from shopfloor.domain.runs import Message
from shopfloor.repositories.repository import Repository


class RunMessages(Repository):
    """The messages to all runs of a workspace."""

    def add(self, run: str, sender: str, body: str, now: int) -> None:
        """Add a message."""
        self._connection.execute(
            """
            INSERT INTO run_message (workspace, run, sender, body, created_at)
            VALUES (:workspace, :run, :sender, :body, :now)
            """,
            workspace=self._workspace,
            run=run,
            sender=sender,
            body=body,
            now=now,
        )

    def list_undelivered(self, run: str, since: int, limit: int) -> list[Message]:
        """Return messages that were in no prompt before iteration `since`, oldest first."""
        rows = self._connection.fetch_all(
            """
            SELECT number, sender, body, created_at FROM run_message
            WHERE workspace = :workspace AND run = :run AND delivered_in IS NULL
            UNION ALL
            SELECT number, sender, body, created_at FROM run_message
            WHERE workspace = :workspace AND run = :run AND delivered_in >= :since
            ORDER BY 1 LIMIT :limit
            """,
            workspace=self._workspace,
            run=run,
            since=since,
            limit=limit,
        )
        return [Message(*row) for row in rows]

    def set_delivered(self, run: str, number: int, iteration: int) -> None:
        """Record that the prompt of an iteration included the message."""
        self._connection.execute(
            """
            UPDATE run_message SET delivered_in = :iteration
            WHERE workspace = :workspace AND run = :run AND number = :number
            """,
            workspace=self._workspace,
            run=run,
            number=number,
            iteration=iteration,
        )
