"""The transcripts of agent sessions."""

from __future__ import annotations

import re
from typing import Any

from shopfloor.domain.transcripts import Entry, EntryKind, NewEntry
from shopfloor.repositories.repository import Repository
from shopfloor.store.protocol import Row

_ENTRY = "number, revision, session, iteration, kind, title, status, body, result, created_at, updated_at"
_BEYOND = 2**63 - 1
"""Later than every entry."""


class Transcripts(Repository):
    """The transcripts of all runs and agents of a workspace."""

    def list_expired(self, before: int, limit: int) -> list[dict[str, Any]]:
        """Return the oldest full entries created before a time."""
        names = ("owner", *(name.strip() for name in _ENTRY.split(",")))
        rows = self._connection.fetch_all(
            f"""
            SELECT owner, {_ENTRY} FROM transcript
            WHERE workspace = :workspace AND created_at < :before
            ORDER BY created_at LIMIT :limit
            """,
            workspace=self._workspace,
            before=before,
            limit=limit,
        )
        return [dict(zip(names, row, strict=True)) for row in rows]

    def purge(self, owner: str, number: int) -> None:
        """Delete an entry."""
        self._connection.execute(
            "DELETE FROM transcript WHERE workspace = :workspace AND owner = :owner AND number = :number",
            workspace=self._workspace,
            owner=owner,
            number=number,
        )

    def next_number(self, owner: str) -> int:
        """Return the number of the next entry of a transcript."""
        row = self._connection.fetch_one(
            "SELECT max(number) FROM transcript WHERE workspace = :workspace AND owner = :owner",
            workspace=self._workspace,
            owner=owner,
        )
        return 1 if row is None or row[0] is None else int(row[0]) + 1

    def latest_revision(self, owner: str) -> int:
        """Return the revision of the last changed entry, or 0."""
        row = self._connection.fetch_one(
            "SELECT max(revision) FROM transcript WHERE workspace = :workspace AND owner = :owner",
            workspace=self._workspace,
            owner=owner,
        )
        return 0 if row is None or row[0] is None else int(row[0])

    def put(self, owner: str, session: str, iteration: int, entry: NewEntry, revision: int, now: int) -> None:
        """Add an entry, or replace the one with its number."""
        self._connection.execute(
            """
            INSERT INTO transcript (
                workspace, owner, number, revision, session, iteration, kind, title, status, body, result, created_at,
                updated_at
            )
            VALUES (
                :workspace, :owner, :number, :revision, :session, :iteration, :kind, :title, :status, :body, :result,
                :created_at, :now
            )
            ON CONFLICT (workspace, owner, number) DO UPDATE
            SET revision = excluded.revision, title = excluded.title, status = excluded.status, body = excluded.body,
                result = excluded.result, updated_at = excluded.updated_at
            """,
            workspace=self._workspace,
            owner=owner,
            number=entry.number,
            revision=revision,
            session=session,
            iteration=iteration,
            kind=entry.kind.value,
            title=entry.title,
            status=entry.status,
            body=entry.body,
            result=entry.result,
            created_at=entry.created_at,
            now=now,
        )

    def list_page(self, owner: str, limit: int, before: int | None = None, iteration: int | None = None) -> list[Entry]:
        """Return entries of a transcript, or of one iteration, last first."""
        where = "" if iteration is None else " AND iteration = :iteration"
        rows = self._connection.fetch_all(
            f"""
            SELECT {_ENTRY} FROM transcript
            WHERE workspace = :workspace AND owner = :owner{where} AND number < :before
            ORDER BY number DESC LIMIT :limit
            """,
            workspace=self._workspace,
            owner=owner,
            limit=limit,
            before=_BEYOND if before is None else before,
            **({} if iteration is None else {"iteration": iteration}),
        )
        return [_entry(row) for row in rows]

    def list_changes(self, owner: str, after: int, limit: int) -> list[Entry]:
        """Return the entries that changed after a revision, in the order of their changes."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_ENTRY} FROM transcript
            WHERE workspace = :workspace AND owner = :owner AND revision > :after
            ORDER BY revision LIMIT :limit
            """,
            workspace=self._workspace,
            owner=owner,
            after=after,
            limit=limit,
        )
        return [_entry(row) for row in rows]

    def search(
        self, owner: str, text: str, first: int, before: int, limit: int, iteration: int | None = None
    ) -> list[Entry]:
        """Return the entries from `first` to `before` that contain the text, ignoring case, last first."""
        where = "" if iteration is None else " AND iteration = :iteration"
        escaped = re.sub(r"([\\%_])", r"\\\1", text.lower())
        rows = self._connection.fetch_all(
            f"""
            SELECT {_ENTRY} FROM transcript
            WHERE workspace = :workspace AND owner = :owner{where} AND number >= :first AND number < :before
              AND lower(title || ' ' || body || ' ' || result) LIKE :pattern ESCAPE '\\'
            ORDER BY number DESC LIMIT :limit
            """,
            workspace=self._workspace,
            owner=owner,
            first=first,
            before=before,
            pattern=f"%{escaped}%",
            limit=limit,
            **({} if iteration is None else {"iteration": iteration}),
        )
        return [_entry(row) for row in rows]


def _entry(row: Row) -> Entry:
    number, revision, session, iteration, kind, *rest = row
    return Entry(number, revision, session, iteration, EntryKind(kind), *rest)
