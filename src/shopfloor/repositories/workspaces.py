"""Workspaces: what keeps one team's rows apart from another's."""

from __future__ import annotations

from shopfloor.store.database import Connection


class Workspaces:
    """All workspaces of a store."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ensure(self, name: str, now: int) -> int:
        """The id of the workspace, made if there is none of that name."""
        self._connection.execute(
            "INSERT INTO workspace (name, created_at) VALUES (:name, :now) ON CONFLICT (name) DO NOTHING",
            name=name,
            now=now,
        )
        row = self._connection.one("SELECT id FROM workspace WHERE name = :name", name=name)
        assert row is not None
        return int(row[0])

    def closed(self, workspace: int) -> bool:
        """Whether every call needs a credential."""
        row = self._connection.one("SELECT closed_at FROM workspace WHERE id = :id", id=workspace)
        return row is not None and row[0] is not None

    def close(self, workspace: int, now: int) -> None:
        """From now on, for good, every call needs a credential."""
        self._connection.execute(
            "UPDATE workspace SET closed_at = :now WHERE id = :id AND closed_at IS NULL", id=workspace, now=now
        )

    def secret(self, workspace: int, name: str, fresh: bytes, now: int) -> bytes:
        """The workspace's own secret of that name; `fresh` becomes it when there is none."""
        self._connection.execute(
            "INSERT INTO secret (workspace, name, value, created_at) VALUES (:workspace, :name, :value, :now)"
            " ON CONFLICT (workspace, name) DO NOTHING",
            workspace=workspace,
            name=name,
            value=fresh,
            now=now,
        )
        row = self._connection.one(
            "SELECT value FROM secret WHERE workspace = :workspace AND name = :name", workspace=workspace, name=name
        )
        assert row is not None
        return bytes(row[0])
