"""Questions that runs ask people."""

from __future__ import annotations

import json

from shopfloor.domain.runs import Request
from shopfloor.errors import NotFound
from shopfloor.repositories.repository import Repository
from shopfloor.store.protocol import Row

_REQUEST = "number, run, kind, question, options, about, answer, answered_by, created_at, answered_at"


class RunRequests(Repository):
    """The questions of all runs of a workspace."""

    def add(
        self, run: str, kind: str, question: str, options: tuple[str, ...], now: int, about: str | None = None
    ) -> Request:
        """Add a question and return it."""
        row = self._connection.fetch_one(
            f"""
            INSERT INTO run_request (workspace, run, kind, question, options, about, created_at)
            VALUES (:workspace, :run, :kind, :question, :options, :about, :now)
            RETURNING {_REQUEST}
            """,
            workspace=self._workspace,
            run=run,
            kind=kind,
            question=question,
            options=json.dumps(options),
            about=about,
            now=now,
        )
        assert row is not None
        return _request(row)

    def get(self, number: int) -> Request:
        """Return the question, or raise NotFound."""
        row = self._connection.fetch_one(
            f"SELECT {_REQUEST} FROM run_request WHERE workspace = :workspace AND number = :number",
            workspace=self._workspace,
            number=number,
        )
        if row is None:
            raise NotFound(f"Question {number} not found", request=number)
        return _request(row)

    def list_pending(self, limit: int, run: str | None = None) -> list[Request]:
        """Return unanswered questions, of one run or of all, oldest first."""
        where = "workspace = :workspace AND answered_at IS NULL" + ("" if run is None else " AND run = :run")
        rows = self._connection.fetch_all(
            f"SELECT {_REQUEST} FROM run_request WHERE {where} ORDER BY number LIMIT :limit",
            workspace=self._workspace,
            limit=limit,
            **({} if run is None else {"run": run}),
        )
        return [_request(row) for row in rows]

    def list_page(self, run: str, limit: int) -> list[Request]:
        """Return the questions of a run, the latest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_REQUEST} FROM run_request
            WHERE workspace = :workspace AND run = :run
            ORDER BY number DESC LIMIT :limit
            """,
            workspace=self._workspace,
            run=run,
            limit=limit,
        )
        return [_request(row) for row in rows]

    def list_of_crew(self, crew: str, limit: int) -> list[Request]:
        """Return the questions of the runs of a crew, oldest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_REQUEST} FROM run_request
            WHERE workspace = :workspace
              AND run IN (SELECT name FROM run WHERE workspace = :workspace AND crew = :crew)
            ORDER BY number LIMIT :limit
            """,
            workspace=self._workspace,
            crew=crew,
            limit=limit,
        )
        return [_request(row) for row in rows]

    def list_answered(self, limit: int) -> list[Request]:
        """Return the questions that were answered or withdrawn, latest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_REQUEST} FROM run_request
            WHERE workspace = :workspace AND answered_at IS NOT NULL
            ORDER BY number DESC LIMIT :limit
            """,
            workspace=self._workspace,
            limit=limit,
        )
        return [_request(row) for row in rows]

    def is_always_allowed(self, run: str, about: str) -> bool:
        """Return whether a question of the run about `about` was answered with `always`."""
        # The answer is written out, because the index has only requests with it.
        row = self._connection.fetch_one(
            """
            SELECT 1 FROM run_request
            WHERE workspace = :workspace AND run = :run AND about = :about AND answer = 'always'
            LIMIT 1
            """,
            workspace=self._workspace,
            run=run,
            about=about,
        )
        return row is not None

    def set_answer(self, number: int, answer: str, by: str, now: int) -> bool:
        """Store the answer; return False if the question already has one."""
        answered = self._connection.execute(
            """
            UPDATE run_request SET answer = :answer, answered_by = :by, answered_at = :now
            WHERE workspace = :workspace AND number = :number AND answered_at IS NULL
            """,
            workspace=self._workspace,
            number=number,
            answer=answer,
            by=by,
            now=now,
        )
        return answered == 1


def _request(row: Row) -> Request:
    number, run, kind, question, options, *rest = row
    return Request(number, run, kind, question, tuple(json.loads(options)), *rest)
