"""Crews and their merge queues."""

from __future__ import annotations

from typing import Any

from shopfloor.domain.crews import Crew, CrewNotFound, Merge, MergeState, Phase
from shopfloor.domain.runs import RunState, Wanted
from shopfloor.repositories.repository import Repository
from shopfloor.store.protocol import Row

_CREW = (
    "name, epic, state, wanted, phase, workers, reason, report, project, branch, base, options, process, fence, spent,"
    " accounted_at, created_at, updated_at, ended_at"
)
_MERGE = "task, crew, branch, commit_id, state, merged_commit, attempts, output, approved_by, created_at, updated_at"
_CREW_UPDATABLE = frozenset(_CREW.split(", ")) - {"name", "created_at", "updated_at"}
_MERGE_UPDATABLE = frozenset(_MERGE.split(", ")) - {"task", "created_at", "updated_at"}

_BEYOND = 2**63 - 1
"""Later than every time."""


class Crews(Repository):
    """The crews of a workspace."""

    def add(
        self,
        name: str,
        *,
        epic: int,
        phase: Phase,
        workers: int,
        project: str,
        branch: str,
        base: str,
        options: str,
        now: int,
    ) -> bool:
        """Add a crew; return False when the name is taken."""
        added = self._connection.execute(
            """
            INSERT INTO crew (workspace, name, epic, state, wanted, phase, workers, project, branch, base, options,
                created_at, updated_at)
            VALUES (:workspace, :name, :epic, 'active', 'go', :phase, :workers, :project, :branch, :base, :options,
                :now, :now)
            ON CONFLICT (workspace, name) DO NOTHING
            """,
            workspace=self._workspace,
            name=name,
            epic=epic,
            phase=phase.value,
            workers=workers,
            project=project,
            branch=branch,
            base=base,
            options=options,
            now=now,
        )
        return added == 1

    def get(self, name: str) -> Crew:
        """Return the crew, or raise CrewNotFound."""
        crew = self.find(name)
        if crew is None:
            raise CrewNotFound(crew=name)
        return crew

    def find(self, name: str) -> Crew | None:
        """Return the crew, or None."""
        row = self._connection.fetch_one(
            f"SELECT {_CREW} FROM crew WHERE workspace = :workspace AND name = :name",
            workspace=self._workspace,
            name=name,
        )
        return None if row is None else _crew(row)

    def update(self, name: str, now: int, **changes: Any) -> Crew:
        """Change columns of a crew and return it. Without changes, this locks its row."""
        # Column names become part of the statement, so only known ones may.
        assert set(changes) <= _CREW_UPDATABLE
        row = self._connection.fetch_one(
            f"UPDATE crew SET {''.join(f'{column} = :{column}, ' for column in changes)}updated_at = :now"
            f" WHERE workspace = :workspace AND name = :name RETURNING {_CREW}",
            workspace=self._workspace,
            name=name,
            now=now,
            **changes,
        )
        if row is None:
            raise CrewNotFound(crew=name)
        return _crew(row)

    def list_page(self, limit: int, before: int | None = None) -> list[Crew]:
        """Return crews, the latest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_CREW} FROM crew
            WHERE workspace = :workspace AND created_at < :before
            ORDER BY created_at DESC LIMIT :limit
            """,
            workspace=self._workspace,
            before=_BEYOND if before is None else before,
            limit=limit,
        )
        return [_crew(row) for row in rows]

    def list_of_epic(self, epic: int, limit: int) -> list[Crew]:
        """Return the crews of an epic, the latest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_CREW} FROM crew
            WHERE workspace = :workspace AND epic = :epic
            ORDER BY created_at DESC LIMIT :limit
            """,
            workspace=self._workspace,
            epic=epic,
            limit=limit,
        )
        return [_crew(row) for row in rows]


class Merges(Repository):
    """The merge queues of all crews of a workspace: one row per task."""

    def find(self, task: int) -> Merge | None:
        """Return the entry of a task, or None."""
        row = self._connection.fetch_one(
            f"SELECT {_MERGE} FROM crew_merge WHERE workspace = :workspace AND task = :task",
            workspace=self._workspace,
            task=task,
        )
        return None if row is None else _merge(row)

    def put(self, task: int, *, crew: str, branch: str, commit: str, state: MergeState, now: int) -> Merge:
        """Add the entry of a task, or renew it after the work was returned. It keeps its number of attempts."""
        row = self._connection.fetch_one(
            f"""
            INSERT INTO crew_merge (workspace, task, crew, branch, commit_id, state, created_at, updated_at)
            VALUES (:workspace, :task, :crew, :branch, :commit, :state, :now, :now)
            ON CONFLICT (workspace, task) DO UPDATE SET
                crew = excluded.crew, branch = excluded.branch, commit_id = excluded.commit_id,
                state = excluded.state, merged_commit = NULL, approved_by = NULL, updated_at = excluded.updated_at
            RETURNING {_MERGE}
            """,
            workspace=self._workspace,
            task=task,
            crew=crew,
            branch=branch,
            commit=commit,
            state=state.value,
            now=now,
        )
        assert row is not None
        return _merge(row)

    def update(self, task: int, now: int, **changes: Any) -> Merge:
        """Change columns of an entry and return it."""
        assert set(changes) <= _MERGE_UPDATABLE
        row = self._connection.fetch_one(
            f"UPDATE crew_merge SET {''.join(f'{column} = :{column}, ' for column in changes)}updated_at = :now"
            f" WHERE workspace = :workspace AND task = :task RETURNING {_MERGE}",
            workspace=self._workspace,
            task=task,
            now=now,
            **changes,
        )
        assert row is not None
        return _merge(row)

    def list_open(self, crew: str, limit: int) -> list[Merge]:
        """Return the entries of a crew that are neither merged nor returned, least recently changed first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_MERGE} FROM crew_merge
            WHERE workspace = :workspace AND crew = :crew AND state IN ('review', 'queued', 'verified')
            ORDER BY updated_at, task LIMIT :limit
            """,
            workspace=self._workspace,
            crew=crew,
            limit=limit,
        )
        return [_merge(row) for row in rows]

    def list_of_crew(self, crew: str, limit: int) -> list[Merge]:
        """Return the entries of a crew, least recently changed first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_MERGE} FROM crew_merge
            WHERE workspace = :workspace AND crew = :crew
            ORDER BY updated_at, task LIMIT :limit
            """,
            workspace=self._workspace,
            crew=crew,
            limit=limit,
        )
        return [_merge(row) for row in rows]


def _crew(row: Row) -> Crew:
    name, epic, state, wanted, phase, *rest = row
    return Crew(name, epic, RunState(state), Wanted(wanted), Phase(phase), *rest)


def _merge(row: Row) -> Merge:
    task, crew, branch, commit, state, *rest = row
    return Merge(task, crew, branch, commit, MergeState(state), *rest)
