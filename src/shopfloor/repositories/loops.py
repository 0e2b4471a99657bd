"""Runs, their iterations, and what was noted, asked and said in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from shopfloor.domain.loops import NOTE_PREFIX, Iteration, Message, Note, Request, Run, RunNotFound, RunState, Wanted
from shopfloor.errors import NotFound
from shopfloor.repositories.written import Change, unindexed
from shopfloor.store.database import Connection, Row

_RUN = (
    "name, state, wanted, reason, spec, project, options, iteration, session, process, wish, wished_in, judged,"
    " verdict, tokens, cost, spent, created_at, updated_at, ended_at"
)
_ITERATION = "number, attempts, summary, outcome, failure, board, retold, tokens, cost, started_at, ended_at"
_NOTE = "number, run, iteration, type, content, created_at"
_REQUEST = "number, run, kind, question, options, about, answer, answered_by, created_at, answered_at"

_SUMMARY_REF = "run_iteration.run || '/' || CAST(run_iteration.number AS TEXT)"
_NOTE_REF = f"'{NOTE_PREFIX}' || CAST(run_note.number AS TEXT)"
_UNINDEXED_SUMMARY = unindexed("session", _SUMMARY_REF, "summarised_at")
_UNINDEXED_NOTE = unindexed("session", _NOTE_REF, "created_at")

_RUN_CHANGEABLE = frozenset(_RUN.split(", ")) - {"name", "created_at", "updated_at"}
_ITERATION_CHANGEABLE = frozenset(_ITERATION.split(", ")) - {"number", "started_at"}


class Runs:
    """The runs of a workspace, and their iterations."""

    def __init__(self, connection: Connection, workspace: int) -> None:
        self._connection = connection
        self._workspace = workspace

    def add(self, name: str, *, spec: str, project: str, options: str, now: int) -> bool:
        """Add a run; false when the name is taken."""
        added = self._connection.execute(
            "INSERT INTO run (workspace, name, state, wanted, spec, project, options, iteration, created_at, updated_at)"
            " VALUES (:workspace, :name, 'active', 'go', :spec, :project, :options, 0, :now, :now)"
            " ON CONFLICT (workspace, name) DO NOTHING",
            workspace=self._workspace,
            name=name,
            spec=spec,
            project=project,
            options=options,
            now=now,
        )
        return added == 1

    def get(self, name: str) -> Run:
        run = self.find(name)
        if run is None:
            raise RunNotFound(run=name, hint="See which there are: shopfloor runs")
        return run

    def find(self, name: str) -> Run | None:
        """The run, if there is one of that name."""
        row = self._connection.one(
            f"SELECT {_RUN} FROM run WHERE workspace = :workspace AND name = :name",
            workspace=self._workspace,
            name=name,
        )
        return None if row is None else _run(row)

    def held(self, name: str, now: int) -> Run:
        """The run; whoever changes it or its tasks at the same time goes after this work."""
        return self.change(name, now)

    def change(self, name: str, now: int, **changes: Any) -> Run:
        """The run after the change."""
        assert set(changes) <= _RUN_CHANGEABLE
        row = self._connection.one(
            f"UPDATE run SET {''.join(f'{column} = :{column}, ' for column in changes)}updated_at = :now"
            f" WHERE workspace = :workspace AND name = :name RETURNING {_RUN}",
            workspace=self._workspace,
            name=name,
            now=now,
            **changes,
        )
        if row is None:
            raise RunNotFound(run=name, hint="See which there are: shopfloor runs")
        return _run(row)

    def latest(self) -> Run | None:
        """The run that was begun last."""
        runs = self.page(1)
        return runs[0] if runs else None

    def page(self, limit: int, before: int | None = None) -> list[Run]:
        """Runs, the one begun last first."""
        rows = self._connection.all(
            f"SELECT {_RUN} FROM run WHERE workspace = :workspace"
            f"{'' if before is None else ' AND created_at < :before'} ORDER BY created_at DESC, name LIMIT :limit",
            workspace=self._workspace,
            limit=limit,
            **({} if before is None else {"before": before}),
        )
        return [_run(row) for row in rows]

    def open_iteration(self, run: str, number: int, now: int) -> Iteration:
        """An iteration that is under way now, for the first time or again."""
        row = self._connection.one(
            "INSERT INTO run_iteration (workspace, run, number, attempts, started_at)"
            " VALUES (:workspace, :run, :number, 1, :now) ON CONFLICT (workspace, run, number) DO UPDATE"
            f" SET attempts = run_iteration.attempts + 1, outcome = NULL, ended_at = NULL RETURNING {_ITERATION}",
            workspace=self._workspace,
            run=run,
            number=number,
            now=now,
        )
        assert row is not None
        return Iteration(*row)

    def iteration(self, run: str, number: int) -> Iteration | None:
        row = self._connection.one(
            f"SELECT {_ITERATION} FROM run_iteration WHERE workspace = :workspace AND run = :run AND number = :number",
            workspace=self._workspace,
            run=run,
            number=number,
        )
        return None if row is None else Iteration(*row)

    def change_iteration(self, run: str, number: int, **changes: Any) -> None:
        assert changes and set(changes) <= _ITERATION_CHANGEABLE
        self._connection.execute(
            f"UPDATE run_iteration SET {', '.join(f'{column} = :{column}' for column in changes)}"
            " WHERE workspace = :workspace AND run = :run AND number = :number",
            workspace=self._workspace,
            run=run,
            number=number,
            **changes,
        )

    def iterations(self, run: str, limit: int, before: int | None = None) -> list[Iteration]:
        """Iterations, the last one first."""
        rows = self._connection.all(
            f"SELECT {_ITERATION} FROM run_iteration WHERE workspace = :workspace AND run = :run"
            f"{'' if before is None else ' AND number < :before'} ORDER BY number DESC LIMIT :limit",
            workspace=self._workspace,
            run=run,
            limit=limit,
            **({} if before is None else {"before": before}),
        )
        return [Iteration(*row) for row in rows]

    def summarise(self, run: str, number: int, summary: str, now: int) -> None:
        self._connection.execute(
            "UPDATE run_iteration SET summary = :summary, summarised_at = :now"
            " WHERE workspace = :workspace AND run = :run AND number = :number",
            workspace=self._workspace,
            run=run,
            number=number,
            summary=summary,
            now=now,
        )

    def unindexed_summaries(self, since: int, limit: int) -> list[Change]:
        """Summaries since then that the index does not know, oldest first, as RUN/NUMBER."""
        rows = self._connection.all(
            f"SELECT summarised_at, {_SUMMARY_REF} FROM run_iteration WHERE workspace = :workspace AND summary IS NOT NULL"
            f" AND summarised_at >= :since AND {_UNINDEXED_SUMMARY}"
            " ORDER BY summarised_at, run, number LIMIT :limit",
            workspace=self._workspace,
            since=since,
            limit=limit,
        )
        return [(at, ref) for at, ref in rows]

    def summary(self, run: str, number: int) -> tuple[str, int] | None:
        """What was summarised in an iteration, and when."""
        row = self._connection.one(
            "SELECT summary, summarised_at FROM run_iteration WHERE workspace = :workspace AND run = :run"
            " AND number = :number AND summary IS NOT NULL AND summarised_at IS NOT NULL",
            workspace=self._workspace,
            run=run,
            number=number,
        )
        return None if row is None else (row[0], row[1])


class RunTalk:
    """What runs note and ask, and what people answer and say."""

    def __init__(self, connection: Connection, workspace: int) -> None:
        self._connection = connection
        self._workspace = workspace

    def add_note(self, run: str, iteration: int, type: str, content: str, now: int) -> Note:
        row = self._connection.one(
            "INSERT INTO run_note (workspace, run, iteration, type, content, created_at)"
            f" VALUES (:workspace, :run, :iteration, :type, :content, :now) RETURNING {_NOTE}",
            workspace=self._workspace,
            run=run,
            iteration=iteration,
            type=type,
            content=content,
            now=now,
        )
        assert row is not None
        return Note(*row)

    def notes(
        self, run: str, limit: int, *, type: str | None = None, after: int = 0, newest_first: bool = False
    ) -> list[Note]:
        """Notes of a run in the order of their numbers, beginning after one."""
        rows = self._connection.all(
            f"SELECT {_NOTE} FROM run_note WHERE workspace = :workspace AND run = :run AND number > :after"
            f"{'' if type is None else ' AND type = :type'} ORDER BY number {'DESC' if newest_first else ''}"
            " LIMIT :limit",
            workspace=self._workspace,
            run=run,
            after=after,
            limit=limit,
            **({} if type is None else {"type": type}),
        )
        return [Note(*row) for row in rows]

    def unindexed_notes(self, since: int, limit: int) -> list[Change]:
        """Notes since then that the index does not know, oldest first, as NOT-NUMBER."""
        rows = self._connection.all(
            f"SELECT created_at, {_NOTE_REF} FROM run_note WHERE workspace = :workspace AND created_at >= :since"
            f" AND {_UNINDEXED_NOTE} ORDER BY created_at, number LIMIT :limit",
            workspace=self._workspace,
            since=since,
            limit=limit,
        )
        return [(at, ref) for at, ref in rows]

    def some_notes(self, numbers: Sequence[int]) -> list[Note]:
        """Those of these notes that exist."""
        if not numbers:
            return []
        rows = self._connection.all(
            f"SELECT {_NOTE} FROM run_note WHERE workspace = :workspace"
            f" AND number IN ({', '.join(str(int(number)) for number in numbers)}) ORDER BY number",
            workspace=self._workspace,
        )
        return [Note(*row) for row in rows]

    def ask(
        self, run: str, kind: str, question: str, options: tuple[str, ...], now: int, about: str | None = None
    ) -> Request:
        row = self._connection.one(
            "INSERT INTO run_request (workspace, run, kind, question, options, about, created_at)"
            f" VALUES (:workspace, :run, :kind, :question, :options, :about, :now) RETURNING {_REQUEST}",
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

    def request(self, number: int) -> Request:
        row = self._connection.one(
            f"SELECT {_REQUEST} FROM run_request WHERE workspace = :workspace AND number = :number",
            workspace=self._workspace,
            number=number,
        )
        if row is None:
            raise NotFound(f"There is no question {number}", hint="See what runs ask: shopfloor runs")
        return _request(row)

    def pending(self, limit: int, run: str | None = None) -> list[Request]:
        """Questions that nobody has answered yet, oldest first."""
        rows = self._connection.all(
            f"SELECT {_REQUEST} FROM run_request WHERE workspace = :workspace AND answered_at IS NULL"
            f"{'' if run is None else ' AND run = :run'} ORDER BY number LIMIT :limit",
            workspace=self._workspace,
            limit=limit,
            **({} if run is None else {"run": run}),
        )
        return [_request(row) for row in rows]

    def answer(self, number: int, answer: str, by: str, now: int) -> bool:
        """Answer a question; false when somebody did already."""
        answered = self._connection.execute(
            "UPDATE run_request SET answer = :answer, answered_by = :by, answered_at = :now"
            " WHERE workspace = :workspace AND number = :number AND answered_at IS NULL",
            workspace=self._workspace,
            number=number,
            answer=answer,
            by=by,
            now=now,
        )
        return answered == 1

    def say(self, run: str, sender: str, body: str, now: int) -> None:
        self._connection.execute(
            "INSERT INTO run_message (workspace, run, sender, body, created_at)"
            " VALUES (:workspace, :run, :sender, :body, :now)",
            workspace=self._workspace,
            run=run,
            sender=sender,
            body=body,
            now=now,
        )

    def untold(self, run: str, since: int, limit: int) -> list[Message]:
        """What no prompt of an iteration before this one has told, oldest first."""
        rows = self._connection.all(
            "SELECT number, sender, body, created_at FROM run_message WHERE workspace = :workspace AND run = :run"
            " AND (told_in IS NULL OR told_in >= :since) ORDER BY number LIMIT :limit",
            workspace=self._workspace,
            run=run,
            since=since,
            limit=limit,
        )
        return [Message(*row) for row in rows]

    def told(self, number: int, iteration: int) -> None:
        """A prompt of this iteration has told it."""
        self._connection.execute(
            "UPDATE run_message SET told_in = :iteration WHERE workspace = :workspace AND number = :number",
            workspace=self._workspace,
            number=number,
            iteration=iteration,
        )


def _run(row: Row) -> Run:
    name, state, wanted, *rest = row
    return Run(name, RunState(state), Wanted(wanted), *rest)


def _request(row: Row) -> Request:
    number, run, kind, question, options, *rest = row
    return Request(number, run, kind, question, tuple(json.loads(options)), *rest)
