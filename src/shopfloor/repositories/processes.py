"""The processes that use a workspace, and their heartbeats."""

from __future__ import annotations

from dataclasses import dataclass

from shopfloor.repositories.repository import Repository


@dataclass(frozen=True, slots=True)
class Process:
    """A process that serves this workspace or makes calls in it."""

    id: int
    kind: str
    host: str
    pid: int
    url: str | None
    started_at: int
    heartbeat_at: int
    namespace: str | None
    """The namespace in which the pid is valid; see gateways/process_tree.py."""
    start_ticks: int | None


class Registration:
    """The number of this process in its workspace, or None while it is not registered.

    The housekeeper sets it, and sets it again if others reaped this process as dead. Everything else only reads it.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    def set(self, number: int | None) -> None:
        """Set the number of a new row, or None once the row is removed."""
        self.number = number


class Processes(Repository):
    """The processes of a workspace."""

    def add(
        self,
        kind: str,
        host: str,
        pid: int,
        url: str | None,
        now: int,
        *,
        namespace: str | None = None,
        start_ticks: int | None = None,
    ) -> int:
        row = self._connection.fetch_one(
            """
            INSERT INTO process (workspace, kind, host, pid, url, started_at, heartbeat_at, namespace, start_ticks)
            VALUES (:workspace, :kind, :host, :pid, :url, :now, :now, :namespace, :start_ticks)
            RETURNING id
            """,
            workspace=self._workspace,
            kind=kind,
            host=host,
            pid=pid,
            url=url,
            now=now,
            namespace=namespace,
            start_ticks=start_ticks,
        )
        assert row is not None
        return int(row[0])

    def record_heartbeat(self, id: int, now: int) -> bool:
        """Record a heartbeat. Return False if the process was reaped as dead."""
        alive = self._connection.execute(
            """
            UPDATE process SET heartbeat_at = :now
            WHERE workspace = :workspace AND id = :id
            """,
            workspace=self._workspace,
            id=id,
            now=now,
        )
        return alive == 1

    def list_all(self) -> list[Process]:
        rows = self._connection.fetch_all(
            """
            SELECT id, kind, host, pid, url, started_at, heartbeat_at, namespace, start_ticks FROM process
            WHERE workspace = :workspace
            ORDER BY id
            """,
            workspace=self._workspace,
        )
        return [Process(*row) for row in rows]

    def remove(self, id: int) -> None:
        self._connection.execute(
            "DELETE FROM process WHERE workspace = :workspace AND id = :id", workspace=self._workspace, id=id
        )
