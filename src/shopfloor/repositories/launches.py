"""The runs that the server starts."""

from __future__ import annotations

from typing import Any

from shopfloor.domain.launches import TOPIC, Launch, LaunchNotFound, LaunchState
from shopfloor.repositories.repository import Repository
from shopfloor.store.protocol import Row

_LAUNCH = (
    "id, run, spec, options, state, due_at, repeat, pid, host, problem, launches, created_by, created_at, launched_at"
)
_UPDATABLE = frozenset({"state", "due_at", "pid", "host", "problem", "launches", "launched_at"})
_BEYOND = 2**63 - 1


class Launches(Repository):
    """The launches of a workspace."""

    def add(
        self, *, run: str, spec: str | None, options: str, due_at: int, repeat: int | None, by: str, now: int
    ) -> Launch:
        """Add a launch and return it."""
        row = self._connection.fetch_one(
            f"""
            INSERT INTO run_launch (workspace, run, spec, options, state, due_at, repeat, launches, created_by, created_at)
            VALUES (:workspace, :run, :spec, :options, 'waiting', :due_at, :repeat, 0, :by, :now)
            RETURNING {_LAUNCH}
            """,
            workspace=self._workspace,
            run=run,
            spec=spec,
            options=options,
            due_at=due_at,
            repeat=repeat,
            by=by,
            now=now,
        )
        assert row is not None
        self._connection.notify_on_commit(TOPIC, "run")
        return _launch(row)

    def update(self, launch: int, **changes: Any) -> Launch:
        """Change columns of a launch and return it."""
        # Column names become part of the statement, so only known ones may.
        assert changes
        assert set(changes) <= _UPDATABLE
        row = self._connection.fetch_one(
            f"""
            UPDATE run_launch SET {", ".join(f"{name} = :{name}" for name in changes)}
            WHERE workspace = :workspace AND id = :launch
            RETURNING {_LAUNCH}
            """,
            workspace=self._workspace,
            launch=launch,
            **changes,
        )
        if row is None:
            raise LaunchNotFound(launch=launch)
        self._connection.notify_on_commit("run")
        return _launch(row)

    def get(self, launch: int) -> Launch:
        """Return the launch, or raise LaunchNotFound."""
        row = self._connection.fetch_one(
            f"SELECT {_LAUNCH} FROM run_launch WHERE workspace = :workspace AND id = :launch",
            workspace=self._workspace,
            launch=launch,
        )
        if row is None:
            raise LaunchNotFound(launch=launch)
        return _launch(row)

    def list_page(self, limit: int, before: int | None = None) -> list[Launch]:
        """Return launches, the latest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_LAUNCH} FROM run_launch
            WHERE workspace = :workspace AND id < :before
            ORDER BY id DESC LIMIT :limit
            """,
            workspace=self._workspace,
            before=_BEYOND if before is None else before,
            limit=limit,
        )
        return [_launch(row) for row in rows]

    def take_due(self, now: int, limit: int) -> list[Launch]:
        """Return the launches that are due. Concurrent callers on other replicas skip the returned rows."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_LAUNCH} FROM run_launch
            WHERE workspace = :workspace AND due_at IS NOT NULL AND due_at <= :now
            ORDER BY due_at LIMIT :limit {self._connection.skip_locked}
            """,
            workspace=self._workspace,
            now=now,
            limit=limit,
        )
        return [_launch(row) for row in rows]

    def find_next_due(self) -> int | None:
        """Return when the next launch is due, or None."""
        row = self._connection.fetch_one(
            """
            SELECT due_at FROM run_launch
            WHERE workspace = :workspace AND due_at IS NOT NULL
            ORDER BY due_at LIMIT 1
            """,
            workspace=self._workspace,
        )
        return None if row is None else int(row[0])


def _launch(row: Row) -> Launch:
    id, run, spec, options, state, *rest = row
    return Launch(id, run, spec, options, LaunchState(state), *rest)
