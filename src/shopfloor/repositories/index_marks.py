"""Marks: documents that changed and must be indexed.

A repository that writes a searchable document marks it in the same transaction. The index takes marks, indexes their
documents and commits both together.
"""

from __future__ import annotations

from shopfloor.repositories.repository import Repository
from shopfloor.store.protocol import Connection


def mark_changed(connection: Connection, workspace: int, source: str, ref: object) -> None:
    """Mark a document as changed."""
    # Append-only, without a unique key: on PostgreSQL, writers of one row would wait for each other and for the index.
    connection.send(
        "INSERT INTO index_mark (workspace, source, ref) VALUES (:workspace, :source, :ref)",
        workspace=workspace,
        source=source,
        ref=str(ref),
    )


class IndexMarks(Repository):
    """The marks of a workspace."""

    def exist(self) -> bool:
        """Return whether any document is marked."""
        row = self._connection.fetch_one(
            "SELECT 1 FROM index_mark WHERE workspace = :workspace LIMIT 1", workspace=self._workspace
        )
        return row is not None

    def take(self, limit: int) -> dict[str, list[str]]:
        """Delete the oldest marks and return their refs by source, one per mark, so a ref may be repeated."""
        rows = self._connection.fetch_all(
            """
            DELETE FROM index_mark
            WHERE id IN (SELECT id FROM index_mark WHERE workspace = :workspace ORDER BY id LIMIT :limit)
            RETURNING source, ref
            """,
            workspace=self._workspace,
            limit=limit,
        )
        refs: dict[str, list[str]] = {}
        for source, ref in rows:
            refs.setdefault(source, []).append(ref)
        return refs
