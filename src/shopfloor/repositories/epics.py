"""The epics of a workspace."""

from __future__ import annotations

from shopfloor.domain.epics import Epic, EpicNotFound, EpicState
from shopfloor.repositories.repository import Repository
from shopfloor.store.protocol import MAX_ID, Row

_COLUMNS = "id, title, description, state, linear_issue_id, linear_issue_url, created_at, updated_at, completed_at"


class Epics(Repository):
    """Epics, by number."""

    def add(
        self, *, title: str, description: str, linear_issue_id: str | None, linear_issue_url: str | None, now: int
    ) -> Epic:
        """Add an epic in the state PLANNING."""
        row = self._connection.fetch_one(
            f"""
            INSERT INTO epic (workspace, title, description, state, linear_issue_id, linear_issue_url,
                created_at, updated_at)
            VALUES (:workspace, :title, :description, :state, :linear_id, :linear_url, :now, :now)
            RETURNING {_COLUMNS}
            """,
            workspace=self._workspace,
            title=title,
            description=description,
            state=EpicState.PLANNING.value,
            linear_id=linear_issue_id,
            linear_url=linear_issue_url,
            now=now,
        )
        assert row is not None
        return _epic(row)

    def get(self, id: int) -> Epic:
        row = self._connection.fetch_one(
            f"""
            SELECT {_COLUMNS} FROM epic
            WHERE workspace = :workspace AND id = :id
            """,
            workspace=self._workspace,
            id=id,
        )
        if row is None:
            raise EpicNotFound(epic=f"epic-{id}")
        return _epic(row)

    def touch(self, id: int, now: int) -> Epic:
        """Lock the epic and return it: a concurrent change waits, or makes this transaction run again."""
        row = self._connection.fetch_one(
            f"""
            UPDATE epic SET updated_at = :now
            WHERE workspace = :workspace AND id = :id
            RETURNING {_COLUMNS}
            """,
            workspace=self._workspace,
            id=id,
            now=now,
        )
        if row is None:
            raise EpicNotFound(epic=f"epic-{id}")
        return _epic(row)

    def set_state(self, id: int, state: EpicState, now: int) -> Epic:
        """Set the state and return the epic."""
        row = self._connection.fetch_one(
            f"""
            UPDATE epic SET state = :state, completed_at = :completed_at, updated_at = :now
            WHERE workspace = :workspace AND id = :id
            RETURNING {_COLUMNS}
            """,
            workspace=self._workspace,
            id=id,
            state=state.value,
            completed_at=now if state is EpicState.COMPLETED else None,
            now=now,
        )
        if row is None:
            raise EpicNotFound(epic=f"epic-{id}")
        return _epic(row)

    def list_page(self, *, limit: int, before: int | None = None, state: EpicState | None = None) -> list[Epic]:
        """Return epics, newest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM epic
            WHERE workspace = :workspace AND id < :before{" AND state = :state" if state else ""}
            ORDER BY id DESC LIMIT :limit
            """,
            workspace=self._workspace,
            limit=limit,
            before=MAX_ID if before is None else before,
            **({"state": state.value} if state else {}),
        )
        return [_epic(row) for row in rows]


def _epic(row: Row) -> Epic:
    id, title, description, state, *rest = row
    return Epic(id, title, description, EpicState(state), *rest)
