"""The notes of runs."""

from __future__ import annotations

from collections.abc import Sequence

from shopfloor.domain.runs import Note
from shopfloor.repositories.index_marks import mark_changed
from shopfloor.repositories.repository import Repository

_NOTE = "number, run, iteration, type, content, created_at"


class Notes(Repository):
    """The notes of all runs of a workspace."""

    def add(self, run: str, iteration: int, type: str, content: str, now: int) -> Note:
        """Add a note and return it."""
        row = self._connection.fetch_one(
            f"""
            INSERT INTO run_note (workspace, run, iteration, type, content, created_at)
            VALUES (:workspace, :run, :iteration, :type, :content, :now)
            RETURNING {_NOTE}
            """,
            workspace=self._workspace,
            run=run,
            iteration=iteration,
            type=type,
            content=content,
            now=now,
        )
        assert row is not None
        note = Note(*row)
        mark_changed(self._connection, self._workspace, "session", note.id)
        return note

    def list_page(
        self, run: str, limit: int, *, type: str | None = None, after: int = 0, newest_first: bool = False
    ) -> list[Note]:
        """Return notes of a run after a number, by number."""
        direction = "DESC" if newest_first else "ASC"
        where = "workspace = :workspace AND run = :run AND number > :after"
        where += "" if type is None else " AND type = :type"
        rows = self._connection.fetch_all(
            f"SELECT {_NOTE} FROM run_note WHERE {where} ORDER BY number {direction} LIMIT :limit",
            workspace=self._workspace,
            run=run,
            after=after,
            limit=limit,
            **({} if type is None else {"type": type}),
        )
        return [Note(*row) for row in rows]

    def find_many(self, numbers: Sequence[int]) -> list[Note]:
        """Return the notes with these numbers that exist, by number."""
        if not numbers:
            return []
        rows = self._connection.fetch_all(
            f"""
            SELECT {_NOTE} FROM run_note {self._connection.by_row_id}
            WHERE workspace = :workspace AND number IN ({", ".join(str(int(number)) for number in numbers)})
            ORDER BY number
            """,
            workspace=self._workspace,
        )
        return [Note(*row) for row in rows]
