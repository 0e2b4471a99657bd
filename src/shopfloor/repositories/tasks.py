"""Tasks of one board, or of all boards of a kind. No statement reads or writes outside that scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shopfloor.domain.tasks import BoardKind, Comment, State, Task, TaskNotFound
from shopfloor.repositories.index_marks import mark_changed
from shopfloor.repositories.repository import Repository
from shopfloor.store.protocol import Connection, Row

_COLUMNS = (
    "number, kind, board, title, description, state, priority, open_blockers, assignee, attempts, fence, version,"
    " worktree_path, branch_name, pr_url, acceptance, due_at, due_zone, created_at, updated_at, completed_at, deleted_at,"
    " started_at, held_at, comments"
)
_CHANGEABLE = frozenset(
    {
        "title", "description", "state", "priority", "assignee", "attempts", "fence", "worktree_path", "branch_name",
        "pr_url", "acceptance", "due_at", "due_zone", "content_key", "completed_at", "deleted_at", "board",
        "started_at", "held_at",
    }
)  # fmt: skip
_OWNED = frozenset({"state", "completed_at", "started_at", "deleted_at"})
"""Columns that only `transition`, `delete` and `restore` change: others depend on them."""
_SEARCHED = frozenset({"title", "description", "deleted_at"})
"""Columns that the search index covers."""
_SEEN_BY_ALL = (
    "EXISTS (SELECT 1 FROM task WHERE task.workspace = comment.workspace AND task.number = comment.task"
    " AND task.kind <> 'list')"
)


class Tasks:
    """The tasks of all boards of a kind; with `board`, those of that board only."""

    def __init__(self, connection: Connection, workspace: int, kind: BoardKind, board: str | None = None) -> None:
        self._connection = connection
        self._kind = kind
        self._board = board
        # Two fragments instead of `(:board IS NULL OR board = :board)`: the indexes start with the board, and SQLite,
        # which plans a statement without its values, would use none of them.
        self._scope = "workspace = :workspace AND kind = :kind" + ("" if board is None else " AND board = :board")
        self._bound: dict[str, Any] = {"workspace": workspace, "kind": kind.value}
        if board is not None:
            self._bound["board"] = board

    def add(self, *, title: str, now: int, board: str | None = None, **facts: Any) -> Task:
        """Add a task, PENDING by default, on the scope's own board or on `board`."""
        values = {
            "description": None,
            "state": State.PENDING.value,
            "priority": 2,
            **facts,
            **self._bound,
            "board": self._board if self._board is not None else board or "",
            "title": title,
            "created_at": now,
            "updated_at": now,
        }
        assert set(facts) <= _CHANGEABLE
        names = ", ".join(values)
        row = self._connection.fetch_one(
            f"""
            INSERT INTO task ({names})
            VALUES ({", ".join(f":{name}" for name in values)})
            RETURNING {_COLUMNS}
            """,
            **values,
        )
        assert row is not None
        self._mark_changed("task", row[0])
        return _task(row)

    def get(self, number: int, *, deleted: bool = False) -> Task:
        """Return the task, or raise TaskNotFound; a deleted task is found only with `deleted`."""
        row = self._connection.fetch_one(
            f"SELECT {_COLUMNS} FROM task WHERE {self._scope} AND number = :number"
            + ("" if deleted else " AND deleted_at IS NULL"),
            number=number,
            **self._bound,
        )
        if row is None:
            raise TaskNotFound(task=number)
        return _task(row)

    def find_by_content(self, content_key: str) -> Task | None:
        """Return the task with that content key, or None."""
        row = self._connection.fetch_one(
            f"""
            SELECT {_COLUMNS} FROM task
            WHERE {self._scope} AND content_key = :content_key AND deleted_at IS NULL
            """,
            content_key=content_key,
            **self._bound,
        )
        return None if row is None else _task(row)

    def list_numbers_with_prefix(self, digits: str, limit: int) -> list[int]:
        """Return the task numbers that begin with these digits."""
        rows = self._connection.fetch_all(
            f"""
            SELECT number FROM task
            WHERE {self._scope} AND deleted_at IS NULL AND CAST(number AS TEXT) LIKE :pattern
            ORDER BY number LIMIT :limit
            """,
            pattern=f"{digits}%",
            limit=limit,
            **self._bound,
        )
        return [row[0] for row in rows]

    def update(self, number: int, now: int, **changes: Any) -> Task:
        """Change columns of the task and return it with its next version. `transition` changes its state."""
        assert _OWNED.isdisjoint(changes)
        return self._update(number, now, changes)

    def transition(self, task: Task, state: State, now: int, **changes: Any) -> Task:
        """Set the state of the task with everything that follows from it, and return the task.

        The caller has checked that the task may move. `changes` are columns that change with the state.
        """
        assert _OWNED.isdisjoint(changes)
        if state is task.state:
            return self._update(task.number, now, changes) if changes else task
        follows: dict[str, Any] = {"state": state.value}
        # Only columns that change: SQLite rewrites every index that has a named column.
        if state is State.COMPLETED or task.completed:
            follows["completed_at"] = now if state is State.COMPLETED else None
        if state is State.IN_PROGRESS and task.started_at is None:
            follows["started_at"] = now
        return self._settle_dependents(task, self._update(task.number, now, follows | changes))

    def delete(self, task: Task, now: int) -> Task:
        """Mark the task as deleted: the tasks that depend on it no longer wait for it."""
        return self._settle_dependents(task, self._update(task.number, now, {"deleted_at": now}))

    def restore(self, task: Task, now: int) -> Task:
        """Undo `delete`."""
        return self._settle_dependents(task, self._update(task.number, now, {"deleted_at": None}))

    def _update(self, number: int, now: int, changes: dict[str, Any]) -> Task:
        # Column names become part of the statement, so only known ones may.
        assert set(changes) <= _CHANGEABLE
        row = self._connection.fetch_one(
            f"""
            UPDATE task SET {"".join(f"{name} = :{name}, " for name in changes)}updated_at = :now,
                version = version + 1
            WHERE {self._scope.replace(":board", ":own_board")} AND number = :number
            RETURNING {_COLUMNS}
            """,
            number=number,
            now=now,
            **{("own_board" if name == "board" else name): value for name, value in self._bound.items()},
            **changes,
        )
        if row is None:
            raise TaskNotFound(task=number)
        if not _SEARCHED.isdisjoint(changes):
            self._mark_changed("task", number)
        return _task(row)

    def list_page(
        self,
        *,
        limit: int,
        after: int | None = None,
        newest_first: bool = False,
        state: State | None = None,
        board: str | None = None,
        assignee: str | None = None,
    ) -> list[Task]:
        """Return tasks in the order of their numbers, after `after`."""
        filters, values = self._filters(state=state, board=board, assignee=assignee)
        if after is not None:
            filters += f" AND number {'<' if newest_first else '>'} :after"
            values["after"] = after
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM task
            WHERE {filters}
            ORDER BY number {"DESC" if newest_first else ""} LIMIT :limit
            """,
            limit=limit,
            **values,
        )
        return [_task(row) for row in rows]

    def list_completed(self, limit: int, since: int = 0) -> list[Task]:
        """Return the tasks that were completed since `since`, the latest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM task
            WHERE {self._scope} AND deleted_at IS NULL AND completed_at >= :since
            ORDER BY completed_at DESC LIMIT :limit
            """,
            limit=limit,
            since=since,
            **self._bound,
        )
        return [_task(row) for row in rows]

    def count(self, *, state: State | None = None, board: str | None = None) -> int:
        filters, values = self._filters(state=state, board=board, assignee=None)
        row = self._connection.fetch_one(
            f"""
            SELECT count(*) FROM task
            WHERE {filters}
            """,
            **values,
        )
        assert row is not None
        return int(row[0])

    def count_up_to(self, limit: int, *, state: State, board: str | None = None) -> int:
        """Count the tasks in a state, up to the limit."""
        filters, values = self._filters(state=state, board=board, assignee=None)
        row = self._connection.fetch_one(
            f"""
            SELECT count(*) FROM (SELECT 1 FROM task WHERE {filters} LIMIT :limit) AS counted
            """,
            limit=limit,
            **values,
        )
        assert row is not None
        return int(row[0])

    def _filters(self, *, state: State | None, board: str | None, assignee: str | None) -> tuple[str, dict[str, Any]]:
        wanted = {"state": state and state.value, "assignee": assignee}
        if self._board is None:
            wanted["board"] = board
        given = {name: value for name, value in wanted.items() if value is not None}
        filters = " AND ".join([self._scope, "deleted_at IS NULL", *(f"{name} = :{name}" for name in given)])
        return filters, self._bound | given

    def list_deleted(self, since: int, limit: int) -> list[Task]:
        """Return tasks deleted since `since`, the last one first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM task
            WHERE {self._scope} AND deleted_at >= :since
            ORDER BY deleted_at DESC, number DESC LIMIT :limit
            """,
            since=since,
            limit=limit,
            **self._bound,
        )
        return [_task(row) for row in rows]

    def purge_deleted(self, before: int, limit: int) -> int:
        """Permanently delete tasks that were marked deleted before `before`, and return how many."""
        rows = self._connection.fetch_all(
            f"""
            SELECT number FROM task
            WHERE {self._scope} AND deleted_at < :before
            ORDER BY deleted_at LIMIT :limit
            """,
            before=before,
            limit=limit,
            **self._bound,
        )
        for (number,) in rows:
            self._purge(number)
        return len(rows)

    def _purge(self, number: int) -> None:
        """Permanently delete a task, with its comments and dependencies."""
        bound = {"workspace": self._bound["workspace"], "number": number}
        comments = self._connection.fetch_all(
            "DELETE FROM comment WHERE workspace = :workspace AND task = :number RETURNING id", **bound
        )
        for (id,) in comments:
            self._mark_changed("comment", id)
        self._connection.execute("DELETE FROM dependency WHERE workspace = :workspace AND task = :number", **bound)
        self._connection.execute("DELETE FROM dependency WHERE workspace = :workspace AND blocker = :number", **bound)
        self._connection.execute("DELETE FROM task WHERE workspace = :workspace AND number = :number", **bound)

    def delete_all(self, limit: int) -> int:
        """Permanently delete the tasks of the board, up to the limit, and return how many."""
        assert self._board is not None
        count = 0
        # Two statements, because each condition has its own index.
        for which in ("deleted_at IS NULL", "deleted_at IS NOT NULL"):
            count += self._connection.execute(
                f"""
                DELETE FROM task
                WHERE workspace = :workspace
                  AND number IN (SELECT number FROM task WHERE {self._scope} AND {which} LIMIT :limit)
                """,
                limit=limit - count,
                **self._bound,
            )
        return count

    def list_ready(self, board: str, limit: int = 1, *, claiming: bool = True) -> list[Task]:
        """Return unblocked tasks of a board: lowest priority number first, then lowest number.

        With `claiming`, concurrent claims skip the returned rows.
        """
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM task
            WHERE {self._scope}
              AND board = :on
              AND state = 'PENDING'
              AND open_blockers = 0
              AND deleted_at IS NULL
            ORDER BY priority, number LIMIT :limit {self._connection.skip_locked if claiming else ""}
            """,
            **self._bound,
            on=board,
            limit=limit,
        )
        return [_task(row) for row in rows]

    def list_blockers(self, number: int) -> list[int]:
        """Return the tasks that this one depends on."""
        rows = self._connection.fetch_all(
            f"""
            SELECT blocker FROM dependency
            WHERE workspace = :workspace AND task = :number AND {self._holds("number")}
            ORDER BY blocker
            """,
            number=number,
            **self._bound,
        )
        return [row[0] for row in rows]

    def list_dependents(self, number: int, limit: int) -> list[int]:
        """Return the tasks that depend on this one."""
        rows = self._connection.fetch_all(
            f"""
            SELECT task FROM dependency
            WHERE workspace = :workspace AND blocker = :number AND {self._holds("number")}
            ORDER BY task LIMIT :limit
            """,
            number=number,
            limit=limit,
            **self._bound,
        )
        return [row[0] for row in rows]

    def map_blockers(self, numbers: Sequence[int]) -> dict[int, list[int]]:
        """Return the blockers of many tasks at once."""
        blockers: dict[int, list[int]] = {number: [] for number in numbers}
        if not blockers:
            return blockers
        names = {f"task{place}": number for place, number in enumerate(numbers)}
        rows = self._connection.fetch_all(
            f"""
            SELECT task, blocker FROM dependency
            WHERE workspace = :workspace
              AND task IN ({", ".join(f":{name}" for name in names)})
              AND EXISTS (SELECT 1 FROM task WHERE {self._scope} AND number = dependency.task)
            """,
            **self._bound,
            **names,
        )
        # Sorted here: for ORDER BY blocker, SQLite would scan all dependencies through their index by blocker.
        for number, blocker in sorted(rows):
            blockers[number].append(blocker)
        return blockers

    def list_unfinished_blockers(self, number: int) -> list[Task]:
        """Return the tasks that block this one. A deleted task does not block."""
        return [task for task in self.find_many(self.list_blockers(number)) if task.is_blocking]

    def depends_on(self, number: int, target: int) -> bool:
        """Return whether a task depends on the target, directly or through others."""
        row = self._connection.fetch_one(
            f"""
            WITH RECURSIVE upstream (number) AS (SELECT CAST(:number AS BIGINT) UNION SELECT blocker
                FROM upstream CROSS JOIN dependency
                WHERE dependency.workspace = :workspace AND dependency.task = upstream.number)
            SELECT 1 FROM upstream
            WHERE number = :target AND {self._holds("number")}
            LIMIT 1
            """,
            number=number,
            target=target,
            **self._bound,
        )
        return row is not None

    def lock_graph(self) -> None:
        """Lock the workspace's dependencies until the transaction ends."""
        # A cycle spans several rows: two transactions that each add half of it would not conflict. Updating a common
        # row makes them conflict.
        self._connection.execute(
            """
            INSERT INTO task_graph (workspace, version)
            VALUES (:workspace, 1)
            ON CONFLICT (workspace) DO UPDATE SET version = task_graph.version + 1
            """,
            workspace=self._bound["workspace"],
        )

    def lock(self, number: int) -> None:
        """Lock the task: a concurrent change waits, or makes this transaction run again."""
        # Under REPEATABLE READ, a task that changed since the snapshot is a conflict, and the transaction runs again
        # with the new row. On SQLite there is one writer anyway.
        self._connection.execute(
            f"""
            UPDATE task SET version = version
            WHERE {self._scope} AND number = :number
            """,
            number=number,
            **self._bound,
        )

    def add_blocker(self, number: int, blocker: int) -> bool:
        """Make a task depend on another. Return False if it already does."""
        added = self._connection.execute(
            f"""
            INSERT INTO dependency (workspace, task, blocker)
            SELECT :workspace, number, :blocker FROM task
            WHERE {self._scope} AND number = :number AND {self._holds("blocker")}
            ON CONFLICT (workspace, task, blocker) DO NOTHING
            """,
            number=number,
            blocker=blocker,
            **self._bound,
        )
        if added and self.get(blocker, deleted=True).is_blocking:
            self._count_blockers(number, 1)
        return added == 1

    def remove_blocker(self, number: int, blocker: int) -> bool:
        """Remove a dependency. Return False if there is none."""
        removed = self._connection.execute(
            f"""
            DELETE FROM dependency
            WHERE workspace = :workspace AND task = :number AND blocker = :blocker AND {self._holds("number")}
            """,
            number=number,
            blocker=blocker,
            **self._bound,
        )
        if removed and self.get(blocker, deleted=True).is_blocking:
            self._count_blockers(number, -1)
        return removed == 1

    def _count_blockers(self, number: int, by: int) -> None:
        self._connection.execute(
            f"""
            UPDATE task SET open_blockers = open_blockers + :by
            WHERE {self._scope} AND number = :number
            """,
            number=number,
            by=by,
            **self._bound,
        )

    def _settle_dependents(self, before: Task, after: Task) -> Task:
        """Count the open blockers of the tasks that depend on this one, if it has begun or ceased to block them."""
        # The tasks of a list have no dependencies.
        if before.is_blocking is after.is_blocking or self._kind is BoardKind.LIST:
            return after
        self._connection.execute(
            f"""
            UPDATE task SET open_blockers = open_blockers + :by
            WHERE {self._scope}
              AND number IN (SELECT task FROM dependency WHERE workspace = :workspace
                AND blocker = :blocker) AND {self._holds("blocker")}
            """,
            blocker=after.number,
            by=1 if after.is_blocking else -1,
            **self._bound,
        )
        return after

    def _holds(self, parameter: str) -> str:
        """Return the condition that a task is within the scope."""
        return f"EXISTS (SELECT 1 FROM task WHERE {self._scope} AND number = :{parameter})"

    def list_held_by(self, agent: str, limit: int) -> list[Task]:
        """Return the agent's tasks: those in progress first, then those assigned."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM task
            WHERE {self._scope}
              AND assignee = :agent
              AND state IN ('ASSIGNED', 'IN_PROGRESS')
              AND deleted_at IS NULL
            ORDER BY state DESC, number LIMIT :limit
            """,
            agent=agent,
            limit=limit,
            **self._bound,
        )
        return [_task(row) for row in rows]

    def list_held_by_silent(self, before: int, limit: int) -> list[Task]:
        """Return tasks assigned before `before` to agents that have been silent since then."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM task
            WHERE {self._scope}
              AND state IN ('ASSIGNED', 'IN_PROGRESS')
              AND deleted_at IS NULL
              AND updated_at < :before
              AND EXISTS (SELECT 1 FROM agent WHERE agent.workspace = task.workspace
                AND agent.name = task.assignee AND last_active_at < :before
                AND coalesce(waiting_until, 0) < :before)
            LIMIT :limit
            """,
            before=before,
            limit=limit,
            **self._bound,
        )
        return sorted((_task(row) for row in rows), key=lambda task: (task.assignee or "", task.number))

    def find_open(self, board: str) -> Task | None:
        """Return a task of the board that is not completed, failed or cancelled, or None."""
        for state in (State.IN_PROGRESS, State.REVIEW, State.BLOCKED, State.ASSIGNED, State.PENDING):
            if found := self.list_page(limit=1, state=state, board=board):
                return found[0]
        return None

    def find_many(self, numbers: Sequence[int]) -> list[Task]:
        """Return the tasks with these numbers that exist."""
        if not numbers:
            return []
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM task
            WHERE {self._scope} AND deleted_at IS NULL
              AND number IN ({", ".join(str(int(number)) for number in numbers)})
            ORDER BY number
            """,
            **self._bound,
        )
        return [_task(row) for row in rows]

    def add_comment(self, number: int, author: str, body: str, now: int) -> int:
        """Add a comment and return its number."""
        self.get(number)
        row = self._connection.fetch_one(
            """
            INSERT INTO comment (workspace, task, author, body, created_at)
            VALUES (:workspace, :number, :author, :body, :now)
            RETURNING id
            """,
            workspace=self._bound["workspace"],
            number=number,
            author=author,
            body=body,
            now=now,
        )
        assert row is not None
        self._connection.execute(
            f"""
            UPDATE task SET comments = comments + 1
            WHERE {self._scope} AND number = :number
            """,
            number=number,
            **self._bound,
        )
        self._mark_changed("comment", row[0])
        return int(row[0])

    def _mark_changed(self, source: str, ref: int) -> None:
        """Mark a task or comment for the index. A user's own list is not searched."""
        if self._kind is not BoardKind.LIST:
            mark_changed(self._connection, self._bound["workspace"], source, ref)

    def list_comments(self, number: int, limit: int) -> list[Comment]:
        """Return the newest comments on a task, oldest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT id, author, body, created_at FROM comment
            WHERE workspace = :workspace AND task = :number AND {self._holds("number")}
            ORDER BY id DESC LIMIT :limit
            """,
            number=number,
            limit=limit,
            **self._bound,
        )
        return [Comment(*row) for row in reversed(rows)]


class Comments(Repository):
    """The comments on tasks that all principals may see, excluding users' own lists."""

    def find_many(self, ids: Sequence[int]) -> list[tuple[int, Comment]]:
        """Return the comments with these ids that exist, each with the number of its task."""
        if not ids:
            return []
        rows = self._connection.fetch_all(
            f"""
            SELECT comment.task, comment.id, comment.author, comment.body, comment.created_at
            FROM comment {self._connection.by_row_id}
            WHERE comment.workspace = :workspace AND comment.id IN ({", ".join(str(int(id)) for id in ids)})
              AND {_SEEN_BY_ALL}
            ORDER BY comment.id
            """,
            workspace=self._workspace,
        )
        return [(row[0], Comment(*row[1:])) for row in rows]


def _task(row: Row) -> Task:
    values = list(row)
    values[5] = State(values[5])
    return Task(*values)
