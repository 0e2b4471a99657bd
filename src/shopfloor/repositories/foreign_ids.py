"""The original ids of epics, tasks and comments that were imported from another tracker."""

from __future__ import annotations

from shopfloor.repositories.repository import Repository


class ForeignIds(Repository):
    """Numbers of epics, tasks and comments, by tracker and id in that tracker."""

    def find(self, source: str, kind: str, foreign_id: str) -> int | None:
        """Return the number of the imported item with this id, or None."""
        row = self._connection.fetch_one(
            """
            SELECT number FROM foreign_id
            WHERE workspace = :workspace AND source = :source AND kind = :kind AND foreign_id = :foreign_id
            """,
            workspace=self._workspace,
            source=source,
            kind=kind,
            foreign_id=foreign_id,
        )
        return None if row is None else int(row[0])

    def add(self, source: str, kind: str, foreign_id: str, number: int) -> None:
        """Record the number of the imported item with this id."""
        self._connection.execute(
            """
            INSERT INTO foreign_id (workspace, source, kind, foreign_id, number)
            VALUES (:workspace, :source, :kind, :foreign_id, :number)
            """,
            workspace=self._workspace,
            source=source,
            kind=kind,
            foreign_id=foreign_id,
            number=number,
        )
