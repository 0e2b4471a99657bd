"""The epics of a workspace."""

from __future__ import annotations

from typing import Any

from shopfloor.domain.epics import Epic, EpicNotFound, EpicState
from shopfloor.store.database import Connection, Row

_COLUMNS = "id, title, description, state, linear_issue_id, linear_issue_url, created_at, updated_at, completed_at"


class Epics:
    """Epics, by number."""

    def __init__(self, connection: Connection, workspace: int) -> None:
        self._connection = connection
        self._workspace = workspace

    def add(
        self, *, title: str, description: str, linear_issue_id: str | None, linear_issue_url: str | None, now: int
    ) -> Epic:
        """A new epic, in planning."""
        row = self._connection.one(
            "INSERT INTO epic (workspace, title, description, state, linear_issue_id, linear_issue_url, created_at,"
            " updated_at) VALUES (:workspace, :title, :description, :state, :linear_id, :linear_url, :now, :now)"
            f" RETURNING {_COLUMNS}",
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
        row = self._connection.one(
            f"SELECT {_COLUMNS} FROM epic WHERE workspace = :workspace AND id = :id", workspace=self._workspace, id=id
        )
        if row is None:
            raise EpicNotFound(epic=f"epic-{id}")
        return _epic(row)

    def touch(self, id: int, now: int) -> Epic:
        """The epic, changed; whoever changes it at the same time goes after this work, or makes it run again."""
        return self._change(id, now)

    def move(self, id: int, state: EpicState, now: int) -> Epic:
        """The epic in its new state."""
        completed_at = now if state is EpicState.COMPLETED else None
        return self._change(id, now, state=state.value, completed_at=completed_at)

    def page(self, *, limit: int, before: int | None = None, state: EpicState | None = None) -> list[Epic]:
        """Epics, newest first."""
        filters = {"state": state and state.value, "before": before}
        given = {name: value for name, value in filters.items() if value is not None}
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM epic WHERE workspace = :workspace"
            f"{' AND state = :state' if state else ''}{' AND id < :before' if before is not None else ''}"
            " ORDER BY id DESC LIMIT :limit",
            workspace=self._workspace,
            limit=limit,
            **given,
        )
        return [_epic(row) for row in rows]

    def _change(self, id: int, now: int, **changes: Any) -> Epic:
        row = self._connection.one(
            f"UPDATE epic SET {''.join(f'{name} = :{name}, ' for name in changes)}updated_at = :now"
            f" WHERE workspace = :workspace AND id = :id RETURNING {_COLUMNS}",
            workspace=self._workspace,
            id=id,
            now=now,
            **changes,
        )
        if row is None:
            raise EpicNotFound(epic=f"epic-{id}")
        return _epic(row)


def _epic(row: Row) -> Epic:
    id, title, description, state, *rest = row
    return Epic(id, title, description, EpicState(state), *rest)
