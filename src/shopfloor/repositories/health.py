"""Facts about the store that only health checks need."""

from __future__ import annotations

from shopfloor.repositories.repository import Repository


class Health(Repository):
    """The health of the store, seen from one workspace."""

    def has_statistics(self) -> bool:
        """Return whether the query planner has statistics. PostgreSQL collects them itself."""
        if self._connection.engine == "postgres":
            return True
        row = self._connection.fetch_one("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'")
        return row is not None and self._connection.fetch_one("SELECT 1 FROM sqlite_stat1 LIMIT 1") is not None

    def read_clock(self) -> int | None:
        """Return the time of the database server in microseconds; None for SQLite, which has no clock of its own."""
        if self._connection.engine == "sqlite":
            return None
        row = self._connection.fetch_one("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)")
        return None if row is None else int(row[0])

    def latest_log_time(self) -> int:
        """Return the latest time among the last hundred rows of the log, or 0."""
        # The last row is the health check's own call. If the clock was set back, earlier rows have later times.
        row = self._connection.fetch_one(
            """
            SELECT coalesce(max(created_at), 0) FROM (
                SELECT created_at FROM decision
                WHERE workspace = :workspace
                ORDER BY id DESC LIMIT 100
            ) AS recent
            """,
            workspace=self._workspace,
        )
        return 0 if row is None else int(row[0])
