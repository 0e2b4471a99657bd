"""The rows of the decision log."""

from __future__ import annotations

from collections.abc import Sequence

from shopfloor.domain.decisions import Entry
from shopfloor.errors import NotFound
from shopfloor.store.database import Connection

_COLUMNS = (
    "id, reference, kind, subject, actor, toolset, tool, decision, reasoning, context,"
    " code, task, duration, count, created_at"
)


class Decisions:
    """The log of a workspace."""

    def __init__(self, connection: Connection, workspace: int) -> None:
        self._connection = connection
        self._workspace = workspace

    def add(
        self,
        *,
        reference: int,
        kind: str,
        subject: str,
        actor: str,
        toolset: str,
        tool: str,
        decision: str,
        reasoning: str,
        context: str,
        created_at: int,
        code: str | None = None,
        stack: str | None = None,
        task: int | None = None,
        duration: int | None = None,
        process: int | None = None,
    ) -> int:
        """The number of the new row. A process marks an entry as open until it is closed."""
        row = self._connection.one(
            "INSERT INTO decision (workspace, reference, kind, subject, actor, toolset, tool, decision, reasoning,"
            " context, code, stack, task, duration, process, created_at)"
            " VALUES (:workspace, :reference, :kind, :subject, :actor, :toolset, :tool, :decision, :reasoning,"
            " :context, :code, :stack, :task, :duration, :process, :created_at) RETURNING id",
            workspace=self._workspace,
            reference=reference,
            kind=kind,
            subject=subject,
            actor=actor,
            toolset=toolset,
            tool=tool,
            decision=decision,
            reasoning=reasoning,
            context=context,
            code=code,
            stack=stack,
            task=task,
            duration=duration,
            process=process,
            created_at=created_at,
        )
        assert row is not None
        return int(row[0])

    def leave_open(self, id: int, process: int | None) -> None:
        """Mark an entry as unanswered for as long as its process lives."""
        self._connection.execute(
            "UPDATE decision SET process = :process WHERE workspace = :workspace AND id = :id",
            workspace=self._workspace,
            id=id,
            process=process,
        )

    def close(self, id: int) -> bool:
        """Mark an open entry as answered; false when somebody else has closed it."""
        closed = self._connection.execute(
            "UPDATE decision SET process = NULL WHERE workspace = :workspace AND id = :id AND process IS NOT NULL",
            workspace=self._workspace,
            id=id,
        )
        return closed == 1

    def left_open(self, limit: int) -> list[Entry]:
        """Entries whose process is no longer known."""
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM decision WHERE process IS NOT NULL AND workspace = :workspace AND NOT EXISTS"
            " (SELECT 1 FROM process WHERE process.workspace = decision.workspace AND process.id = decision.process)"
            " ORDER BY id LIMIT :limit",
            workspace=self._workspace,
            limit=limit,
        )
        return [Entry(*row) for row in rows]

    def get(self, id: int) -> Entry:
        row = self._connection.one(
            f"SELECT {_COLUMNS} FROM decision WHERE workspace = :workspace AND id = :id",
            workspace=self._workspace,
            id=id,
        )
        if row is None:
            raise NotFound(f"Log entry log-{id} does not exist", log=id)
        return Entry(*row)

    def page(
        self,
        *,
        limit: int,
        before: int | None = None,
        subject: str | None = None,
        tool: str | None = None,
        task: int | None = None,
        reference: int | None = None,
    ) -> list[Entry]:
        """Entries, newest first, that fit every filter given."""
        filters = ["workspace = :workspace"]
        wanted = {"subject": subject, "tool": tool, "task": task, "reference": reference}
        filters += [f"{column} = :{column}" for column, value in wanted.items() if value is not None]
        if before is not None:
            filters.append("id < :before")
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM decision WHERE {' AND '.join(filters)} ORDER BY id DESC LIMIT :limit",
            workspace=self._workspace,
            limit=limit,
            **{column: value for column, value in wanted.items() if value is not None},
            **({} if before is None else {"before": before}),
        )
        return [Entry(*row) for row in rows]

    def manual_since(self, at: int, limit: int) -> list[Entry]:
        """What agents decided themselves since then, oldest first."""
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM decision WHERE workspace = :workspace AND kind = 'manual' AND created_at >= :at"
            " ORDER BY created_at, id LIMIT :limit",
            workspace=self._workspace,
            at=at,
            limit=limit,
        )
        return [Entry(*row) for row in rows]

    def some(self, ids: Sequence[int]) -> list[Entry]:
        """Those of these entries that exist."""
        if not ids:
            return []
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM decision WHERE workspace = :workspace"
            f" AND id IN ({', '.join(str(int(id)) for id in ids)})",
            workspace=self._workspace,
        )
        return [Entry(*row) for row in rows]

    def stack(self, id: int) -> str | None:
        """The stack trace of an error row; for people only."""
        row = self._connection.one(
            "SELECT stack FROM decision WHERE workspace = :workspace AND id = :id", workspace=self._workspace, id=id
        )
        return None if row is None else row[0]

    def count_limited(self, *, reference: int, since: int, subject: str, toolset: str, tool: str, now: int) -> None:
        """One more rate-limited call in this window: one row each, with a count."""
        counted = self._connection.execute(
            "UPDATE decision SET count = count + 1 WHERE workspace = :workspace AND id = (SELECT max(id) FROM decision"
            " WHERE workspace = :workspace AND subject = :subject AND tool = :tool AND kind = 'limited'"
            " AND created_at >= :since)",
            workspace=self._workspace,
            subject=subject,
            tool=tool,
            since=since,
        )
        if counted == 0:
            self.add(
                reference=reference,
                kind="limited",
                subject=subject,
                actor=subject,
                toolset=toolset,
                tool=tool,
                decision=f"Rate limited: {tool}",
                reasoning="Automatic rate limit log",
                context="{}",
                code="RATE_LIMITED",
                created_at=now,
            )
