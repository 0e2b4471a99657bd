"""Workspaces: isolated tenants of one database."""

from __future__ import annotations

from shopfloor.store.protocol import Connection


class Workspaces:
    """All workspaces of a store."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ensure(self, name: str, now: int) -> int:
        """Return the id of the workspace, creating it if needed."""
        self._connection.execute(
            """
            INSERT INTO workspace (name, created_at)
            VALUES (:name, :now)
            ON CONFLICT (name) DO NOTHING
            """,
            name=name,
            now=now,
        )
        workspace = self.find(name)
        assert workspace is not None
        return workspace

    def find(self, name: str) -> int | None:
        """Return the id of the workspace, or None."""
        row = self._connection.fetch_one("SELECT id FROM workspace WHERE name = :name", name=name)
        return None if row is None else int(row[0])

    def is_closed(self, workspace: int) -> bool:
        """Return whether every call needs a credential."""
        row = self._connection.fetch_one("SELECT closed_at FROM workspace WHERE id = :id", id=workspace)
        return row is not None and row[0] is not None

    def close(self, workspace: int, now: int) -> None:
        """Require a credential for every call, permanently."""
        self._connection.execute(
            """
            UPDATE workspace SET closed_at = :now
            WHERE id = :id AND closed_at IS NULL
            """,
            id=workspace,
            now=now,
        )

    def lock(self, workspace: int) -> None:
        """Lock the workspace until the transaction ends, for a rule that spans several rows."""
        # Under REPEATABLE READ the second of two transactions runs again, and sees what the first one wrote.
        self._connection.execute("UPDATE workspace SET name = name WHERE id = :id", id=workspace)

    def record_heartbeat(self, workspace: int, now: int, latest: int) -> None:
        """Record that a server is up. If the last heartbeat was before `latest`, uptime starts at `now`."""
        self._connection.execute(
            """
            UPDATE workspace
            SET up_since = CASE WHEN heartbeat_at >= :latest THEN up_since ELSE :now END, heartbeat_at = :now
            WHERE id = :id
            """,
            id=workspace,
            now=now,
            latest=latest,
        )

    def find_up_since(self, workspace: int, latest: int) -> int | None:
        """Return the start of the server's uptime, or None if the last heartbeat was before `latest`."""
        row = self._connection.fetch_one(
            """
            SELECT up_since FROM workspace
            WHERE id = :id AND heartbeat_at >= :latest
            """,
            id=workspace,
            latest=latest,
        )
        return None if row is None else int(row[0])

    def replace_secret(self, workspace: int, name: str, fresh: bytes, now: int) -> None:
        """Replace the secret of that name."""
        self._connection.execute(
            """
            UPDATE secret SET value = :value, created_at = :now
            WHERE workspace = :workspace AND name = :name
            """,
            workspace=workspace,
            name=name,
            value=fresh,
            now=now,
        )

    def find_secret(self, workspace: int, name: str) -> bytes | None:
        """Return the workspace's secret of that name, or None."""
        row = self._connection.fetch_one(
            """
            SELECT value FROM secret
            WHERE workspace = :workspace AND name = :name
            """,
            workspace=workspace,
            name=name,
        )
        return None if row is None else bytes(row[0])

    def get_secret(self, workspace: int, name: str) -> bytes:
        """Return the workspace's secret of that name, which the first start stored."""
        secret = self.find_secret(workspace, name)
        assert secret is not None
        return secret

    def ensure_secret(self, workspace: int, name: str, fresh: bytes, now: int) -> bytes:
        """Return the workspace's secret of that name, storing `fresh` if there is none."""
        # Read back after the insert, so that two replicas that start at once both use the stored secret.
        self._connection.execute(
            """
            INSERT INTO secret (workspace, name, value, created_at)
            VALUES (:workspace, :name, :value, :now)
            ON CONFLICT (workspace, name) DO NOTHING
            """,
            workspace=workspace,
            name=name,
            value=fresh,
            now=now,
        )
        return self.get_secret(workspace, name)
