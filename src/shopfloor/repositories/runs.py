"""Runs and their iterations."""

from __future__ import annotations

from typing import Any

from shopfloor.domain.runs import Iteration, Run, RunNotFound, RunState, Wanted
from shopfloor.repositories.index_marks import mark_changed
from shopfloor.repositories.repository import Repository
from shopfloor.store.protocol import Row

_RUN = (
    "name, state, wanted, reason, spec, project, options, iteration, session, process, fence, wish, wished_in, judged,"
    " verdict, tokens, cost, spent, created_at, updated_at, ended_at, waiting, verified_before, start_tree,"
    " plan_approved, crew, worker, task"
)
_ITERATION = "number, attempts, summary, outcome, failure, board, prompt_changed, tokens, cost, started_at, ended_at"

_BEYOND = 2**63 - 1
"""Later than every time and number."""

_RUN_UPDATABLE = frozenset(_RUN.split(", ")) - {"name", "created_at", "updated_at"}
_ITERATION_UPDATABLE = frozenset(_ITERATION.split(", ")) - {"number", "started_at"}


class Runs(Repository):
    """The runs of a workspace, and their iterations."""

    def add(
        self,
        name: str,
        *,
        spec: str,
        project: str,
        options: str,
        now: int,
        crew: str | None = None,
        worker: str | None = None,
        task: int | None = None,
    ) -> bool:
        """Add a run; return False if the name is taken."""
        added = self._connection.execute(
            """
            INSERT INTO run (workspace, name, state, wanted, spec, project, options, iteration, crew, worker, task,
                created_at, updated_at)
            VALUES (:workspace, :name, 'active', 'go', :spec, :project, :options, 0, :crew, :worker, :task,
                :now, :now)
            ON CONFLICT (workspace, name) DO NOTHING
            """,
            workspace=self._workspace,
            name=name,
            spec=spec,
            project=project,
            options=options,
            crew=crew,
            worker=worker,
            task=task,
            now=now,
        )
        return added == 1

    def get(self, name: str) -> Run:
        """Return the run, or raise RunNotFound."""
        run = self.find(name)
        if run is None:
            raise RunNotFound(run=name)
        return run

    def find(self, name: str) -> Run | None:
        """Return the run, or None."""
        row = self._connection.fetch_one(
            f"SELECT {_RUN} FROM run WHERE workspace = :workspace AND name = :name",
            workspace=self._workspace,
            name=name,
        )
        return None if row is None else _run(row)

    def lock(self, name: str, now: int) -> Run:
        """Lock the run row and return it. Changes to a run and to its tasks take this lock first."""
        # An update of the row is a lock on both engines. The tasks of a run have rules that span several rows, such as
        # one task in progress, and a read followed by an update is safe on one row only.
        return self.update(name, now)

    def update(self, name: str, now: int, **changes: Any) -> Run:
        """Change columns of a run and return it."""
        # Column names become part of the statement, so only known ones may.
        assert set(changes) <= _RUN_UPDATABLE
        row = self._connection.fetch_one(
            f"UPDATE run SET {''.join(f'{column} = :{column}, ' for column in changes)}updated_at = :now"
            f" WHERE workspace = :workspace AND name = :name RETURNING {_RUN}",
            workspace=self._workspace,
            name=name,
            now=now,
            **changes,
        )
        if row is None:
            raise RunNotFound(run=name)
        return _run(row)

    def find_latest(self) -> Run | None:
        """Return the newest run, or None."""
        runs = self.list_page(1)
        return runs[0] if runs else None

    def list_of_crew(self, crew: str, limit: int) -> list[Run]:
        """Return the runs of a crew, the latest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_RUN} FROM run
            WHERE workspace = :workspace AND crew = :crew
            ORDER BY created_at DESC LIMIT :limit
            """,
            workspace=self._workspace,
            crew=crew,
            limit=limit,
        )
        return [_run(row) for row in rows]

    def list_page(self, limit: int, before: int | None = None) -> list[Run]:
        """Return runs, the latest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_RUN} FROM run
            WHERE workspace = :workspace AND created_at < :before
            ORDER BY created_at DESC, name LIMIT :limit
            """,
            workspace=self._workspace,
            limit=limit,
            before=_BEYOND if before is None else before,
        )
        return [_run(row) for row in rows]

    def list_without_crews(self, limit: int, before: int | None = None) -> list[Run]:
        """Return runs that belong to no crew, the latest first."""
        # A separate statement: with a parameter for the condition, its index would not be used.
        rows = self._connection.fetch_all(
            f"""
            SELECT {_RUN} FROM run
            WHERE workspace = :workspace AND created_at < :before AND crew IS NULL
            ORDER BY created_at DESC, name LIMIT :limit
            """,
            workspace=self._workspace,
            limit=limit,
            before=_BEYOND if before is None else before,
        )
        return [_run(row) for row in rows]

    def open_iteration(self, run: str, number: int, now: int) -> Iteration:
        """Start or restart an iteration, and return it."""
        row = self._connection.fetch_one(
            f"""
            INSERT INTO run_iteration (workspace, run, number, attempts, started_at)
            VALUES (:workspace, :run, :number, 1, :now)
            ON CONFLICT (workspace, run, number) DO UPDATE
            SET attempts = run_iteration.attempts + 1, outcome = NULL, ended_at = NULL
            RETURNING {_ITERATION}
            """,
            workspace=self._workspace,
            run=run,
            number=number,
            now=now,
        )
        assert row is not None
        return Iteration(*row)

    def find_iteration(self, run: str, number: int) -> Iteration | None:
        """Return an iteration, or None."""
        row = self._connection.fetch_one(
            f"SELECT {_ITERATION} FROM run_iteration WHERE workspace = :workspace AND run = :run AND number = :number",
            workspace=self._workspace,
            run=run,
            number=number,
        )
        return None if row is None else Iteration(*row)

    def update_iteration(self, run: str, number: int, **changes: Any) -> None:
        """Change columns of an iteration."""
        assert changes and set(changes) <= _ITERATION_UPDATABLE
        self._connection.execute(
            f"UPDATE run_iteration SET {', '.join(f'{column} = :{column}' for column in changes)}"
            " WHERE workspace = :workspace AND run = :run AND number = :number",
            workspace=self._workspace,
            run=run,
            number=number,
            **changes,
        )

    def list_iterations(self, run: str, limit: int, before: int | None = None) -> list[Iteration]:
        """Return iterations, the last one first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_ITERATION} FROM run_iteration
            WHERE workspace = :workspace AND run = :run AND number < :before
            ORDER BY number DESC LIMIT :limit
            """,
            workspace=self._workspace,
            run=run,
            limit=limit,
            before=_BEYOND if before is None else before,
        )
        return [Iteration(*row) for row in rows]

    def find_dirty_files(self, run: str) -> str | None:
        """Return the files with uncommitted changes from before the latest iteration, as JSON, or None."""
        row = self._connection.fetch_one(
            """
            SELECT dirty_before FROM run_iteration
            WHERE workspace = :workspace AND run = :run AND dirty_before IS NOT NULL
            ORDER BY number DESC LIMIT 1
            """,
            workspace=self._workspace,
            run=run,
        )
        return None if row is None else str(row[0])

    def set_dirty_files(self, run: str, number: int, files: str) -> None:
        """Store the files with uncommitted changes from before an iteration, as JSON."""
        self._connection.execute(
            """
            UPDATE run_iteration SET dirty_before = :files
            WHERE workspace = :workspace AND run = :run AND number = :number
            """,
            workspace=self._workspace,
            run=run,
            number=number,
            files=files,
        )

    def clear_dirty_files(self, run: str) -> None:
        """Clear the files with changes from before iterations, once the changes are committed."""
        self._connection.execute(
            """
            UPDATE run_iteration SET dirty_before = NULL
            WHERE workspace = :workspace AND run = :run AND dirty_before IS NOT NULL
            """,
            workspace=self._workspace,
            run=run,
        )

    def set_summary(self, run: str, number: int, summary: str, now: int) -> None:
        """Store the summary of an iteration."""
        self._connection.execute(
            """
            UPDATE run_iteration SET summary = :summary, summarised_at = :now
            WHERE workspace = :workspace AND run = :run AND number = :number
            """,
            workspace=self._workspace,
            run=run,
            number=number,
            summary=summary,
            now=now,
        )
        mark_changed(self._connection, self._workspace, "session", f"{run}/{number}")

    def find_summary(self, run: str, number: int) -> tuple[str, int] | None:
        """Return the summary of an iteration and when it was written, or None."""
        row = self._connection.fetch_one(
            """
            SELECT summary, summarised_at FROM run_iteration
            WHERE workspace = :workspace AND run = :run AND number = :number
              AND summary IS NOT NULL AND summarised_at IS NOT NULL
            """,
            workspace=self._workspace,
            run=run,
            number=number,
        )
        return None if row is None else (row[0], row[1])


def _run(row: Row) -> Run:
    name, state, wanted, *rest = row
    return Run(name, RunState(state), Wanted(wanted), *rest)
