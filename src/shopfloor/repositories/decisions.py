"""The rows of the decision log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from shopfloor.domain.decisions import Entry, LogFilter, NewEntry, first_reference
from shopfloor.errors import NotFound
from shopfloor.repositories.index_marks import mark_changed
from shopfloor.repositories.repository import Repository
from shopfloor.store.protocol import MAX_ID

_COLUMNS = (
    "id, reference, kind, subject, actor, toolset, tool, decision, reasoning, context,"
    " code, task, duration, count, created_at, retries"
)

MAX_ROWS_EXAMINED = 20_000
"""Maximum number of rows that one search examines before it returns a cursor."""

_PAGE_READS = "(toolset = 'desk' OR (toolset = 'personal' AND tool LIKE 'show%'))"
"""Calls that a page makes to read the server's state or a user's list."""

# Each comparison comes before its IS NULL: PostgreSQL infers a parameter's type from its first use.
_MATCHES = f"""
    CASE :rows
        WHEN 'open' THEN kind = 'invocation' AND process IS NOT NULL
        WHEN 'result' THEN kind = 'result'
        WHEN 'end' THEN kind <> 'invocation'
        ELSE id > 0
    END
    AND (:desk = 1 OR NOT {_PAGE_READS})
    AND (:drivers = 1 OR toolset NOT IN ('run', 'crew') OR code IS NOT NULL)
    AND (code = :code OR :code IS NULL)
    AND (subject = :subject OR :subject IS NULL)
    AND (tool = :tool OR :tool IS NULL)
    AND (lower(tool) LIKE :tool_pattern ESCAPE '!' OR :tool_pattern IS NULL)
    AND (created_at >= :since OR :since IS NULL)
    AND (created_at < :until OR :until IS NULL)
    AND (
        lower(decision) LIKE :pattern ESCAPE '!'
        OR lower(reasoning) LIKE :pattern ESCAPE '!'
        OR lower(context) LIKE :pattern ESCAPE '!'
        OR lower(tool) LIKE :pattern ESCAPE '!'
        OR lower(subject) LIKE :pattern ESCAPE '!'
        OR :pattern IS NULL
    )
"""
"""The condition on search candidates. It needs no index: there are few candidates."""

_ID_SLACK = 1000
"""Ids and times grow together, but not exactly: a long call ends among later ones."""

_INSERT = """
    INSERT INTO decision (workspace, reference, kind, subject, actor, toolset, tool, decision,
        reasoning, context, code, stack, task, duration, process, retries, created_at)
    VALUES (:workspace, :reference, :kind, :subject, :actor, :toolset, :tool, :decision, :reasoning,
        :context, :code, :stack, :task, :duration, :process, :retries, :created_at)
"""
_DEFAULTS = {"code": None, "stack": None, "task": None, "duration": None, "process": None, "retries": 0}


class Decisions(Repository):
    """The log of a workspace."""

    def add(self, **values: Unpack[NewEntry]) -> int:
        """Add a row and return its number. With `process`, the entry is open until it is closed."""
        row = self._connection.fetch_one(f"{_INSERT} RETURNING id", workspace=self._workspace, **(_DEFAULTS | values))
        assert row is not None
        if values["kind"] == "manual":
            mark_changed(self._connection, self._workspace, "decision", row[0])
        return int(row[0])

    def append(self, **values: Unpack[NewEntry]) -> None:
        """Add a row whose number is not needed."""
        self._connection.send(_INSERT, workspace=self._workspace, **(_DEFAULTS | values))

    def mark_open(self, id: int, process: int | None) -> None:
        """Mark an entry as open while its process lives."""
        self._connection.execute(
            """
            UPDATE decision SET process = :process
            WHERE workspace = :workspace AND id = :id
            """,
            workspace=self._workspace,
            id=id,
            process=process,
        )

    def close(self, id: int) -> bool:
        """Close an open entry. Return False if it was already closed."""
        closed = self._connection.execute(
            """
            UPDATE decision SET process = NULL
            WHERE workspace = :workspace AND id = :id AND process IS NOT NULL
            """,
            workspace=self._workspace,
            id=id,
        )
        return closed == 1

    def list_left_open(self, limit: int) -> list[Entry]:
        """Return open entries of processes that no longer exist."""
        # First the processes that have open entries, each found by one step in `decision_open`: a server may have 10,000
        # waiting calls, and this runs at every heartbeat. Reading 5,000 entries took 14 ms and blocked all writes. The
        # index is named, because without statistics SQLite considers the workspace selective, although it matches every
        # row of the log. With a million calls that blocked all writes for 1.8 s.
        source = "decision INDEXED BY decision_open" if self._connection.engine == "sqlite" else "decision"
        rows = self._connection.fetch_all(
            f"""
            WITH RECURSIVE holder (id) AS (
              SELECT (SELECT min(process) FROM {source} WHERE process IS NOT NULL)
              UNION ALL
              SELECT (SELECT min(process) FROM {source} WHERE process > holder.id) FROM holder WHERE holder.id IS NOT NULL
            )
            SELECT {_COLUMNS} FROM {source}
            WHERE process IN (SELECT id FROM holder
                WHERE NOT EXISTS (SELECT 1 FROM process WHERE process.id = holder.id))
              AND workspace = :workspace
            ORDER BY id LIMIT :limit
            """,
            workspace=self._workspace,
            limit=limit,
        )
        return [Entry(*row) for row in rows]

    def has_end(self, reference: int) -> bool:
        """Return whether the call with this reference has its result or error in the log."""
        row = self._connection.fetch_one(
            """
            SELECT 1 FROM decision
            WHERE workspace = :workspace AND reference = :reference AND kind IN ('result', 'error')
            LIMIT 1
            """,
            workspace=self._workspace,
            reference=reference,
        )
        return row is not None

    def set_task(self, reference: int, task: int) -> None:
        """Record which task the call with this reference is about."""
        self._connection.execute(
            """
            UPDATE decision SET task = :task
            WHERE workspace = :workspace AND reference = :reference
            """,
            workspace=self._workspace,
            reference=reference,
            task=task,
        )

    def get(self, id: int) -> Entry:
        row = self._connection.fetch_one(
            f"""
            SELECT {_COLUMNS} FROM decision
            WHERE workspace = :workspace AND id = :id
            """,
            workspace=self._workspace,
            id=id,
        )
        if row is None:
            raise NotFound(f"Log entry log-{id} does not exist", log=id)
        return Entry(*row)

    def list_page(
        self,
        *,
        limit: int,
        before: int | None = None,
        subject: str | None = None,
        tool: str | None = None,
        task: int | None = None,
        reference: int | None = None,
    ) -> list[Entry]:
        """Return entries that match every filter, newest first."""
        filters = ["workspace = :workspace", "id < :before"]
        wanted = {"subject": subject, "tool": tool, "task": task, "reference": reference}
        filters += [f"{column} = :{column}" for column, value in wanted.items() if value is not None]
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM decision
            WHERE {" AND ".join(filters)}
            ORDER BY id DESC LIMIT :limit
            """,
            workspace=self._workspace,
            limit=limit,
            **{column: value for column, value in wanted.items() if value is not None},
            before=MAX_ID if before is None else before,
        )
        return [Entry(*row) for row in rows]

    def search(self, criteria: LogFilter, limit: int, before: int | None = None) -> tuple[list[Entry], int | None]:
        """Return matching rows, newest first, and the id to continue before, or None at the end.

        The most selective filter with an index finds candidates, and the other filters apply to them: the cost of a
        search does not depend on the log's length. It stops after MAX_ROWS_EXAMINED candidates.
        """
        # Ids and times grow together, so the ids around the time span bound the scan. It has no index of its own.
        from_id, before_id = self._find_id_bounds(criteria)
        span = {
            "workspace": self._workspace,
            "from_id": from_id,
            "before": before_id if before is None else min(before, before_id),
            "subject": criteria.subject,
            "tool": criteria.tool,
            "task": criteria.task,
            "cap": MAX_ROWS_EXAMINED,
        }
        # A fragment, and not `(:task IS NULL OR task = :task)` for every filter: SQLite plans a statement without its
        # values, and would take none of the partial indexes. The index is named, because SQLite, which has no
        # statistics here, prefers decision_workspace for any range of ids and reads the whole log for one task.
        index, condition = _choose_index(criteria)
        # Match the end of each call; also its start while the call is open, or if the search is for text.
        ends = "end" if criteria.text is None else "all"
        source = f"decision INDEXED BY {index}" if self._connection.engine == "sqlite" else "decision"
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM (
                SELECT {_COLUMNS}, process FROM {source}
                WHERE workspace = :workspace AND id < :before AND id > :from_id AND {condition}
                ORDER BY id DESC LIMIT :cap
            ) AS candidate
            WHERE {_MATCHES}
            ORDER BY id DESC LIMIT :limit
            """,
            limit=limit,
            rows={"open": "open", "ok": "result"}.get(criteria.outcome or "", ends),
            desk=int(criteria.desk),
            drivers=int(criteria.includes_drivers),
            code=None if criteria.outcome in (None, "ok", "error", "decision", "open") else criteria.outcome,
            since=criteria.since,
            until=criteria.until,
            pattern=_to_pattern(criteria.text),
            tool_pattern=_to_pattern(criteria.tool_part),
            **span,
        )
        entries = [Entry(*row) for row in rows]
        if len(entries) == limit:
            return entries, entries[-1].id
        # Fewer than requested: either the log ends, or the search reached its limit and continues from there.
        end = self._connection.fetch_one(
            f"""
            SELECT count(*), coalesce(min(id), 0) FROM (
                SELECT id FROM {source}
                WHERE workspace = :workspace AND id < :before AND id > :from_id AND {condition}
                ORDER BY id DESC LIMIT :cap
            ) AS candidate
            """,
            **span,
        )
        assert end is not None
        return entries, int(end[1]) if end[0] == MAX_ROWS_EXAMINED else None

    def _find_id_bounds(self, criteria: LogFilter) -> tuple[int, int]:
        """Return approximate id bounds of the rows in the filter's time span."""
        low, high = 0, MAX_ID
        if criteria.since is not None:
            row = self._connection.fetch_one(
                """
                SELECT id FROM decision
                WHERE workspace = :workspace AND reference < :reference
                ORDER BY reference DESC LIMIT 1
                """,
                workspace=self._workspace,
                reference=first_reference(criteria.since),
            )
            low = -_ID_SLACK if row is None else int(row[0]) - _ID_SLACK
        if criteria.until is not None:
            row = self._connection.fetch_one(
                """
                SELECT id FROM decision
                WHERE workspace = :workspace AND reference >= :reference
                ORDER BY reference LIMIT 1
                """,
                workspace=self._workspace,
                reference=first_reference(criteria.until),
            )
            high = MAX_ID if row is None else int(row[0]) + _ID_SLACK
        return low, high

    def list_call(self, reference: int) -> list[Entry]:
        """Return all rows of one call, in order."""
        return self.list_page(limit=100, reference=reference)[::-1]

    def newest_call_id(self) -> int:
        """Return the id of the newest row that a timeline shows, or 0."""
        row = self._connection.fetch_one(
            f"""
            SELECT id FROM decision
            WHERE workspace = :workspace AND kind <> 'invocation' AND NOT {_PAGE_READS}
            ORDER BY id DESC LIMIT 1
            """,
            workspace=self._workspace,
        )
        return 0 if row is None else int(row[0])

    def count_calls(self, since: int, limit: int) -> int:
        """Count the calls of all processes since a time, excluding the desk, up to the limit."""
        first, _ = self._find_id_bounds(LogFilter(since=since))
        row = self._connection.fetch_one(
            """
            SELECT count(*) FROM (
                SELECT 1 FROM decision
                WHERE workspace = :workspace AND kind <> 'invocation' AND toolset <> 'desk' AND kind <> 'manual'
                  AND id >= :first AND created_at >= :since
                LIMIT :limit
            ) AS counted
            """,
            workspace=self._workspace,
            first=first,
            since=since,
            limit=limit,
        )
        assert row is not None
        return int(row[0])

    def count_results_without_invocation(self) -> tuple[int, int]:
        """Count the results whose invocation is missing, to verify the log; also return the id of the first."""
        row = self._connection.fetch_one(
            """
            SELECT count(*), coalesce(min(id), 0) FROM decision AS ended
            WHERE workspace = :workspace AND kind = 'result'
              -- Retention may have deleted the invocation of a call that took long.
              AND reference > coalesce((SELECT min(reference) FROM decision WHERE workspace = :workspace), 0)
              AND NOT EXISTS (
                SELECT 1 FROM decision AS begun
                WHERE begun.workspace = ended.workspace AND begun.reference = ended.reference
                  AND begun.kind = 'invocation'
            )
            """,
            workspace=self._workspace,
        )
        assert row is not None
        return int(row[0]), int(row[1])

    def find_newest(self, subjects: Sequence[str]) -> dict[str, Entry]:
        """Return the newest row about each of these principals, by subject."""
        if not subjects:
            return {}
        # Materialized: PostgreSQL assumes that a subquery in a condition may leak rows past row-level security, and
        # then uses no index for it. In steps of 50 parameters, so that PostgreSQL prepares a few statements, not one
        # for each number of agents. A range instead of an equality: PostgreSQL then needs the index by subject for the
        # order. With an equality it may scan the primary key backwards, through the whole log for a principal that has
        # no row. CROSS JOIN: with statistics of a small log, SQLite read the whole log to compare each row.
        padded = [*subjects, *[subjects[-1]] * (-len(subjects) % 50)]
        wanted = {f"subject{number}": subject for number, subject in enumerate(padded)}
        rows = self._connection.fetch_all(
            f"""
            WITH wanted (subject) AS (VALUES {", ".join(f"(:{name})" for name in wanted)}),
            newest (newest_id) AS MATERIALIZED (
                SELECT (SELECT id FROM decision WHERE workspace = :workspace
                    AND subject >= wanted.subject AND subject <= wanted.subject
                    ORDER BY subject DESC, id DESC LIMIT 1) FROM wanted
            )
            SELECT {_COLUMNS} FROM newest CROSS JOIN decision {self._connection.by_row_id}
            WHERE workspace = :workspace AND id = newest_id
            """,
            workspace=self._workspace,
            **wanted,
        )
        entries = [Entry(*row) for row in rows]
        return {entry.subject: entry for entry in entries}

    def find_many(self, ids: Sequence[int]) -> list[Entry]:
        """Return the entries with these ids that exist."""
        if not ids:
            return []
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM decision {self._connection.by_row_id}
            WHERE workspace = :workspace AND id IN ({", ".join(str(int(id)) for id in ids)})
            """,
            workspace=self._workspace,
        )
        return [Entry(*row) for row in rows]

    def find_inputs(self, references: Sequence[int]) -> dict[int, str]:
        """Return the input of each of these calls as JSON, by reference."""
        if not references:
            return {}
        rows = self._connection.fetch_all(
            f"""
            SELECT reference, context FROM decision
            WHERE workspace = :workspace AND kind = 'invocation'
              AND reference IN ({", ".join(str(int(reference)) for reference in references)})
            """,
            workspace=self._workspace,
        )
        return dict(rows)

    def find_stack(self, id: int) -> str | None:
        """Return the stack trace of an error row, for people only."""
        row = self._connection.fetch_one(
            "SELECT stack FROM decision WHERE workspace = :workspace AND id = :id", workspace=self._workspace, id=id
        )
        return None if row is None else row[0]

    def count_limited(self, *, reference: int, since: int, subject: str, toolset: str, tool: str, now: int) -> None:
        """Count a rate-limited call: one row per principal, tool and window."""
        counted = self._connection.execute(
            """
            UPDATE decision SET count = count + 1
            WHERE workspace = :workspace
              AND id = (SELECT max(id) FROM decision WHERE workspace = :workspace AND subject = :subject
                AND tool = :tool AND kind = 'limited' AND created_at >= :since)
            """,
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


def _to_pattern(text: str | None) -> str | None:
    """Return the LIKE pattern that matches text anywhere, or None."""
    if text is None:
        return None
    return "%" + "".join(f"!{char}" if char in "!%_" else char for char in text.lower()) + "%"


def _choose_index(criteria: LogFilter) -> tuple[str, str]:
    """Return the index that finds the candidates, and the condition that it serves."""
    if criteria.task is not None:
        return "decision_task", "task = :task AND task IS NOT NULL"
    if criteria.outcome == "decision":
        return "decision_said", "kind = 'manual'"
    if criteria.outcome == "open":
        return "decision_open", "process IS NOT NULL"
    if criteria.outcome not in (None, "ok"):
        return "decision_failed", "code IS NOT NULL"
    if criteria.subject is not None:
        return "decision_subject", "subject = :subject"
    if criteria.tool is not None:
        return "decision_tool", "tool = :tool"
    if criteria.desk or criteria.text is not None:
        return "decision_workspace", "id > 0"
    return "decision_calls", "kind <> 'invocation' AND toolset <> 'desk'"
