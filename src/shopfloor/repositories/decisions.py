"""The rows of the decision log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shopfloor.domain.decisions import Entry, Sought, first_reference
from shopfloor.errors import NotFound
from shopfloor.repositories.written import Change, unindexed
from shopfloor.store.database import Connection

_COLUMNS = (
    "id, reference, kind, subject, actor, toolset, tool, decision, reasoning, context,"
    " code, task, duration, count, created_at, retries"
)

LOOKED_THROUGH = 20_000
"""Rows that one search looks at, at most, before it says how far it came."""

_LOOKS = "(toolset = 'desk' OR (toolset = 'personal' AND tool LIKE 'show%'))"
"""Calls by which a page looks at the floor, or at somebody's list."""

_SLACK = 1000
"""Numbers and times grow together, but not in step: calls that last end among later ones."""
_UNINDEXED = unindexed("decision", "CAST(decision.id AS TEXT)", "created_at")


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
        retries: int = 0,
    ) -> int:
        """The number of the new row. A process marks an entry as open until it is closed."""
        row = self._connection.one(
            "INSERT INTO decision (workspace, reference, kind, subject, actor, toolset, tool, decision, reasoning,"
            " context, code, stack, task, duration, process, retries, created_at)"
            " VALUES (:workspace, :reference, :kind, :subject, :actor, :toolset, :tool, :decision, :reasoning,"
            " :context, :code, :stack, :task, :duration, :process, :retries, :created_at) RETURNING id",
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
            retries=retries,
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

    def concern(self, reference: int, task: int) -> None:
        """The call with this reference was about a task."""
        self._connection.execute(
            "UPDATE decision SET task = :task WHERE workspace = :workspace AND reference = :reference",
            workspace=self._workspace,
            reference=reference,
            task=task,
        )

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

    def search(self, sought: Sought, limit: int, before: int | None = None) -> tuple[list[Entry], int | None]:
        """Rows that fit, newest first, and the number to go on before; none when there is nothing further back.

        The most telling filter that has an index names candidates, the others judge them: a search costs the same
        however long the log is. One that finds little stops after so many candidates.
        """
        from_id, before = self._bounds(sought, before)
        found: dict[str, Any] = {
            "workspace": self._workspace,
            "before": before,
            "from_id": from_id,
            "cap": LOOKED_THROUGH,
        }
        candidates = (
            f"FROM decision WHERE workspace = :workspace AND id < :before AND id > :from_id AND {_driver(sought)}"
            " ORDER BY id DESC LIMIT :cap"
        )
        judged, values = _judged(sought)
        found |= {"subject": sought.subject} if ":subject" in candidates + judged else {}
        found |= {"tool": sought.tool} if ":tool" in candidates + judged else {}
        found |= {"task": sought.task} if ":task" in candidates + judged else {}
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM (SELECT {_COLUMNS}, process {candidates}) AS candidate WHERE {judged}"
            " ORDER BY id DESC LIMIT :limit",
            limit=limit,
            **found,
            **values,
        )
        entries = [Entry(*row) for row in rows]
        if len(entries) == limit:
            return entries, entries[-1].id
        only = {key: value for key, value in found.items() if f":{key}" in candidates}
        end = self._connection.one(
            f"SELECT count(*), coalesce(min(id), 0) FROM (SELECT id {candidates}) AS candidate", **only
        )
        assert end is not None
        return entries, int(end[1]) if end[0] == LOOKED_THROUGH else None

    def _bounds(self, sought: Sought, before: int | None) -> tuple[int, int]:
        """Between which numbers the rows of the sought time are, roughly."""
        low = 0 if sought.since is None else self._number_at(sought.since, "max") - _SLACK
        high = 2**62 if sought.until is None else self._number_at(sought.until, "min") + _SLACK
        return low, high if before is None else min(before, high)

    def _number_at(self, at: int, side: str) -> int:
        direction = {"max": "< :reference ORDER BY reference DESC", "min": ">= :reference ORDER BY reference"}[side]
        row = self._connection.one(
            f"SELECT id FROM decision WHERE workspace = :workspace AND reference {direction} LIMIT 1",
            workspace=self._workspace,
            reference=first_reference(at),
        )
        return int(row[0]) if row is not None else {"max": 0, "min": 2**62}[side]

    def of(self, reference: int) -> list[Entry]:
        """All rows of one call, in their order."""
        return self.page(limit=100, reference=reference)[::-1]

    def newest_call(self) -> int:
        """The number of the last row that a timeline shows."""
        row = self._connection.one(
            f"SELECT id FROM decision WHERE workspace = :workspace AND kind <> 'invocation' AND NOT {_LOOKS}"
            " ORDER BY id DESC LIMIT 1",
            workspace=self._workspace,
        )
        return 0 if row is None else int(row[0])

    def last_of(self, subject: str) -> Entry | None:
        """The newest row about somebody."""
        rows = self.page(limit=1, subject=subject)
        return rows[0] if rows else None

    def unindexed(self, since: int, limit: int) -> list[Change]:
        """What agents decided themselves since then and the index does not know, oldest first."""
        rows = self._connection.all(
            "SELECT created_at, CAST(id AS TEXT) FROM decision WHERE workspace = :workspace AND kind = 'manual'"
            f" AND created_at >= :since AND {_UNINDEXED}"
            " ORDER BY created_at, id LIMIT :limit",
            workspace=self._workspace,
            since=since,
            limit=limit,
        )
        return [(at, ref) for at, ref in rows]

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


def _driver(sought: Sought) -> str:
    """The condition that an index answers."""
    if sought.task is not None:
        return "task = :task AND task IS NOT NULL"
    if sought.outcome == "decision":
        return "kind = 'manual'"
    if sought.outcome == "open":
        return "process IS NOT NULL"
    if sought.outcome not in (None, "ok"):
        return "code IS NOT NULL"
    if sought.subject is not None:
        return "subject = :subject"
    if sought.tool is not None:
        return "tool = :tool"
    if sought.desk or sought.text is not None:
        return "id > 0"
    return "kind <> 'invocation' AND toolset <> 'desk'"


def _judged(sought: Sought) -> tuple[str, dict[str, Any]]:
    """What else a row must be, and the values that say so."""
    conditions = [_of_kind(sought)] if _of_kind(sought) else []
    values: dict[str, Any] = {}
    if sought.outcome not in (None, "ok", "error", "decision", "open"):
        conditions.append("code = :code")
        values["code"] = sought.outcome
    if not sought.desk:
        conditions.append(f"NOT {_LOOKS}")
    conditions += [f"{column} = :{column}" for column in ("subject", "tool") if getattr(sought, column) is not None]
    for condition, name in (("created_at >= :since", "since"), ("created_at < :until", "until")):
        if getattr(sought, name) is not None:
            conditions.append(condition)
            values[name] = getattr(sought, name)
    if sought.text is not None:
        values["pattern"] = _pattern(sought.text)
        columns = ("decision", "reasoning", "context", "tool", "subject")
        conditions.append("(" + " OR ".join(f"lower({column}) LIKE :pattern ESCAPE '!'" for column in columns) + ")")
    return " AND ".join(conditions) or "id > 0", values


def _of_kind(sought: Sought) -> str:
    """Which rows of a call a search shows: how it ended, or how it began while it is open or words are sought."""
    if sought.outcome == "open":
        return "kind = 'invocation' AND process IS NOT NULL"
    if sought.outcome == "ok":
        return "kind = 'result'"
    return "kind <> 'invocation'" if sought.text is None else ""


def _pattern(text: str) -> str:
    """The text anywhere, its case not regarded."""
    return "%" + "".join(f"!{char}" if char in "!%_" else char for char in text.lower()) + "%"
