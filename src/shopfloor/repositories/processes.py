"""The processes that work on a floor, and their heartbeats."""

from __future__ import annotations

from dataclasses import dataclass

from shopfloor.store.database import Connection


@dataclass(frozen=True, slots=True)
class Process:
    """A process that serves, or calls, on this floor."""

    id: int
    kind: str
    host: str
    pid: int
    url: str | None
    started_at: int
    heartbeat_at: int


class Processes:
    """The processes of a workspace."""

    def __init__(self, connection: Connection, workspace: int) -> None:
        self._connection = connection
        self._workspace = workspace

    def add(self, kind: str, host: str, pid: int, url: str | None, now: int) -> int:
        row = self._connection.one(
            "INSERT INTO process (workspace, kind, host, pid, url, started_at, heartbeat_at)"
            " VALUES (:workspace, :kind, :host, :pid, :url, :now, :now) RETURNING id",
            workspace=self._workspace,
            kind=kind,
            host=host,
            pid=pid,
            url=url,
            now=now,
        )
        assert row is not None
        return int(row[0])

    def beat(self, id: int, now: int) -> bool:
        """Still there; false when somebody took this process for dead."""
        alive = self._connection.execute(
            "UPDATE process SET heartbeat_at = :now WHERE workspace = :workspace AND id = :id",
            workspace=self._workspace,
            id=id,
            now=now,
        )
        return alive == 1

    def all(self) -> list[Process]:
        rows = self._connection.all(
            "SELECT id, kind, host, pid, url, started_at, heartbeat_at FROM process WHERE workspace = :workspace"
            " ORDER BY id",
            workspace=self._workspace,
        )
        return [Process(*row) for row in rows]

    def remove(self, id: int) -> None:
        self._connection.execute(
            "DELETE FROM process WHERE workspace = :workspace AND id = :id", workspace=self._workspace, id=id
        )
