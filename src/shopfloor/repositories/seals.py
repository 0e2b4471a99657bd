"""The seals of the log and the rows that they cover."""

from __future__ import annotations

from shopfloor.domain.seals import Seal
from shopfloor.repositories.index_marks import mark_changed
from shopfloor.repositories.repository import Repository
from shopfloor.store.protocol import Row

_COLUMNS = """
    number, first_id, last_id, row_count, previous, digest, leaves, last_at, created_at, purged_at
"""
# Everything but `process`, which says only whether the call is still open. The id is first and the time last.
SEALED_COLUMNS = (
    "id, reference, kind, subject, actor, toolset, tool, decision, reasoning, context,"
    " code, stack, task, duration, count, retries, created_at"
)


class Seals(Repository):
    """The seals of a workspace."""

    def find_last(self) -> Seal | None:
        """Return the newest seal, or None."""
        row = self._connection.fetch_one(
            f"""
            SELECT {_COLUMNS} FROM log_seal
            WHERE workspace = :workspace
            ORDER BY number DESC LIMIT 1
            """,
            workspace=self._workspace,
        )
        return None if row is None else _to_seal(row)

    def find_oldest_kept(self) -> Seal | None:
        """Return the oldest seal whose rows are still in the log, or None."""
        row = self._connection.fetch_one(
            f"""
            SELECT {_COLUMNS} FROM log_seal
            WHERE workspace = :workspace AND purged_at IS NULL
            ORDER BY number LIMIT 1
            """,
            workspace=self._workspace,
        )
        return None if row is None else _to_seal(row)

    def list_after(self, number: int, limit: int) -> list[Seal]:
        """Return seals in order, after the given number."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM log_seal
            WHERE workspace = :workspace AND number > :number
            ORDER BY number LIMIT :limit
            """,
            workspace=self._workspace,
            number=number,
            limit=limit,
        )
        return [_to_seal(row) for row in rows]

    def count_kept_rows(self) -> int:
        """Count the sealed rows that are still in the log."""
        row = self._connection.fetch_one(
            """
            SELECT coalesce(sum(row_count), 0) FROM log_seal
            WHERE workspace = :workspace AND purged_at IS NULL
            """,
            workspace=self._workspace,
        )
        return 0 if row is None else int(row[0])

    def add(self, seal: Seal) -> bool:
        """Add a seal. Return False if another replica has added one of this number."""
        added = self._connection.execute(
            f"""
            INSERT INTO log_seal (workspace, {_COLUMNS})
            VALUES (:workspace, :number, :first_id, :last_id, :row_count, :previous, :digest, :leaves, :last_at,
                :created_at, :purged_at)
            ON CONFLICT (workspace, number) DO NOTHING
            """,
            workspace=self._workspace,
            number=seal.number,
            first_id=seal.first_id,
            last_id=seal.last_id,
            row_count=seal.row_count,
            previous=seal.previous,
            digest=seal.digest,
            leaves=seal.leaves,
            last_at=seal.last_at,
            created_at=seal.created_at,
            purged_at=seal.purged_at,
        )
        return added == 1

    def list_rows(self, first: int, last: int, limit: int) -> list[Row]:
        """Return rows of the log as they are sealed, with ids from `first` to `last`."""
        return self._connection.fetch_all(
            f"""
            SELECT {SEALED_COLUMNS} FROM decision
            WHERE workspace = :workspace AND id >= :first AND id <= :last
            ORDER BY id LIMIT :limit
            """,
            workspace=self._workspace,
            first=first,
            last=last,
            limit=limit,
        )

    def find_first_open(self) -> int | None:
        """Return the id of the oldest row whose call is still open, or None."""
        source = "decision INDEXED BY decision_open" if self._connection.engine == "sqlite" else "decision"
        row = self._connection.fetch_one(
            f"SELECT min(id) FROM {source} WHERE process IS NOT NULL AND workspace = :workspace",
            workspace=self._workspace,
        )
        return None if row is None else row[0]

    def newest_row_id(self) -> int:
        """Return the id of the newest row of the log, or 0."""
        row = self._connection.fetch_one(
            "SELECT id FROM decision WHERE workspace = :workspace ORDER BY id DESC LIMIT 1", workspace=self._workspace
        )
        return 0 if row is None else int(row[0])

    def purge(self, seal: Seal, now: int) -> None:
        """Delete the rows of a seal. The seal stays, so that the chain has no gap."""
        manual = self._connection.fetch_all(
            """
            SELECT id FROM decision
            WHERE workspace = :workspace AND id >= :first_id AND id <= :last_id AND kind = 'manual'
            """,
            workspace=self._workspace,
            first_id=seal.first_id,
            last_id=seal.last_id,
        )
        for (id,) in manual:
            mark_changed(self._connection, self._workspace, "decision", id)
        self._connection.execute(
            """
            DELETE FROM decision
            WHERE workspace = :workspace AND id >= :first_id AND id <= :last_id
            """,
            workspace=self._workspace,
            first_id=seal.first_id,
            last_id=seal.last_id,
        )
        self._connection.execute(
            """
            UPDATE log_seal SET purged_at = :now, leaves = :nothing
            WHERE workspace = :workspace AND number = :number
            """,
            workspace=self._workspace,
            number=seal.number,
            nothing=b"",
            now=now,
        )


def _to_seal(row: Row) -> Seal:
    number, first_id, last_id, row_count, previous, digest, leaves, last_at, created_at, purged_at = row
    return Seal(
        number,
        first_id,
        last_id,
        row_count,
        bytes(previous),
        bytes(digest),
        bytes(leaves),
        last_at,
        created_at,
        purged_at,
    )
