"""Tasks of one kind of board, or of one board: nothing outside of that scope is ever seen or touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shopfloor.domain.tasks import BoardKind, Comment, State, Task, TaskNotFound
from shopfloor.repositories.written import Change, unindexed
from shopfloor.store.database import Connection, Row

_COLUMNS = (
    "number, kind, board, title, description, state, priority, open_blockers, assignee, attempts, fence, version,"
    " worktree_path, branch_name, pr_url, acceptance, due_at, due_zone, created_at, updated_at, completed_at, deleted_at"
)
_CHANGEABLE = frozenset(
    {
        "title", "description", "state", "priority", "assignee", "attempts", "fence", "worktree_path", "branch_name",
        "pr_url", "acceptance", "due_at", "due_zone", "content_key", "completed_at", "deleted_at", "board",
    }
)  # fmt: skip
_UNINDEXED = unindexed("task", "CAST(task.number AS TEXT)", "CASE WHEN deleted_at IS NULL THEN updated_at END")
_UNINDEXED_COMMENT = unindexed("comment", "CAST(comment.id AS TEXT)", "comment.created_at")
_SEEN_BY_ALL = (
    "EXISTS (SELECT 1 FROM task WHERE task.workspace = comment.workspace AND task.number = comment.task"
    " AND task.kind <> 'list')"
)
_LATE = 1000
"""Comments among which one may become visible after others of a higher number."""


class Tasks:
    """The tasks of a kind of board; with `board`, those of one board only."""

    def __init__(self, connection: Connection, workspace: int, kind: BoardKind, board: str | None = None) -> None:
        self._connection = connection
        self._kind = kind
        self._board = board
        self._scope = "workspace = :workspace AND kind = :kind" + ("" if board is None else " AND board = :board")
        self._bound: dict[str, Any] = {"workspace": workspace, "kind": kind.value}
        if board is not None:
            self._bound["board"] = board

    def add(self, *, title: str, now: int, board: str | None = None, **facts: Any) -> Task:
        """A new task, PENDING unless said otherwise; on the scope's own board, or on the one given."""
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
        row = self._connection.one(
            f"INSERT INTO task ({names}) VALUES ({', '.join(f':{name}' for name in values)}) RETURNING {_COLUMNS}",
            **values,
        )
        assert row is not None
        return _task(row)

    def get(self, number: int, *, deleted: bool = False) -> Task:
        """The task; deleted ones only when asked for."""
        row = self._connection.one(
            f"SELECT {_COLUMNS} FROM task WHERE {self._scope} AND number = :number"
            + ("" if deleted else " AND deleted_at IS NULL"),
            number=number,
            **self._bound,
        )
        if row is None:
            raise TaskNotFound(task=number)
        return _task(row)

    def with_content(self, content_key: str) -> Task | None:
        """The task of that content, where a board keeps its contents apart."""
        row = self._connection.one(
            f"SELECT {_COLUMNS} FROM task WHERE {self._scope} AND content_key = :content_key AND deleted_at IS NULL",
            content_key=content_key,
            **self._bound,
        )
        return None if row is None else _task(row)

    def beginning_with(self, digits: str, limit: int) -> list[int]:
        """The numbers that begin with these digits."""
        rows = self._connection.all(
            f"SELECT number FROM task WHERE {self._scope} AND deleted_at IS NULL"
            " AND CAST(number AS TEXT) LIKE :pattern ORDER BY number LIMIT :limit",
            pattern=f"{digits}%",
            limit=limit,
            **self._bound,
        )
        return [row[0] for row in rows]

    def change(self, number: int, now: int, **changes: Any) -> Task:
        """The task after the change, with its next version."""
        assert set(changes) <= _CHANGEABLE
        row = self._connection.one(
            f"UPDATE task SET {''.join(f'{name} = :{name}, ' for name in changes)}"
            "updated_at = :now, version = version + 1"
            f" WHERE {self._scope.replace(':board', ':own_board')} AND number = :number RETURNING {_COLUMNS}",
            number=number,
            now=now,
            **{("own_board" if name == "board" else name): value for name, value in self._bound.items()},
            **changes,
        )
        if row is None:
            raise TaskNotFound(task=number)
        return _task(row)

    def page(
        self,
        *,
        limit: int,
        after: int | None = None,
        newest_first: bool = False,
        state: State | None = None,
        board: str | None = None,
        assignee: str | None = None,
    ) -> list[Task]:
        """Tasks in the order of their numbers, beginning after one."""
        filters, values = self._filters(state=state, board=board, assignee=assignee)
        if after is not None:
            filters += f" AND number {'<' if newest_first else '>'} :after"
            values["after"] = after
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM task WHERE {filters} ORDER BY number {'DESC' if newest_first else ''} LIMIT :limit",
            limit=limit,
            **values,
        )
        return [_task(row) for row in rows]

    def count(self, *, state: State | None = None, board: str | None = None) -> int:
        filters, values = self._filters(state=state, board=board, assignee=None)
        row = self._connection.one(f"SELECT count(*) FROM task WHERE {filters}", **values)
        assert row is not None
        return int(row[0])

    def count_up_to(self, limit: int, *, state: State, board: str | None = None) -> int:
        """How many tasks are in a state; beyond the limit nobody counts."""
        filters, values = self._filters(state=state, board=board, assignee=None)
        row = self._connection.one(
            f"SELECT count(*) FROM (SELECT 1 FROM task WHERE {filters} LIMIT :limit) AS counted", limit=limit, **values
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

    def deleted(self, since: int, limit: int) -> list[Task]:
        """Tasks deleted since then, the last one first."""
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM task WHERE {self._scope} AND deleted_at >= :since"
            " ORDER BY deleted_at DESC, number DESC LIMIT :limit",
            since=since,
            limit=limit,
            **self._bound,
        )
        return [_task(row) for row in rows]

    def forget(self, before: int, limit: int) -> int:
        """How many tasks that were deleted before then are gone for good now."""
        return self._connection.execute(
            f"DELETE FROM task WHERE {self._scope} AND number IN (SELECT number FROM task WHERE {self._scope}"
            " AND deleted_at < :before ORDER BY deleted_at LIMIT :limit)",
            before=before,
            limit=limit,
            **self._bound,
        )

    def clear(self) -> None:
        """Nothing is left of the board, deleted tasks included."""
        assert self._board is not None
        self._connection.execute(f"DELETE FROM task WHERE {self._scope}", **self._bound)

    def ready(self, board: str, limit: int = 1, *, claiming: bool = True) -> list[Task]:
        """What can be begun on a board: unblocked, lowest priority number, then lowest number. When it is looked for in
        order to claim it, others pass it over."""
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM task WHERE {self._scope} AND board = :on AND state = 'PENDING'"
            f" AND open_blockers = 0 AND deleted_at IS NULL ORDER BY priority, number LIMIT :limit"
            f" {self._connection.skip_locked if claiming else ''}",
            **self._bound,
            on=board,
            limit=limit,
        )
        return [_task(row) for row in rows]

    def blockers(self, number: int) -> list[int]:
        """The tasks that this one depends on."""
        rows = self._connection.all(
            "SELECT blocker FROM dependency WHERE workspace = :workspace AND task = :number"
            f" AND {self._holds('number')} ORDER BY blocker",
            number=number,
            **self._bound,
        )
        return [row[0] for row in rows]

    def dependents(self, number: int, limit: int) -> list[int]:
        """The tasks that depend on this one."""
        rows = self._connection.all(
            "SELECT task FROM dependency WHERE workspace = :workspace AND blocker = :number"
            f" AND {self._holds('number')} ORDER BY task LIMIT :limit",
            number=number,
            limit=limit,
            **self._bound,
        )
        return [row[0] for row in rows]

    def blockers_of(self, numbers: Sequence[int]) -> dict[int, list[int]]:
        """The same for many tasks at once."""
        blockers: dict[int, list[int]] = {number: [] for number in numbers}
        if not blockers:
            return blockers
        names = {f"task{place}": number for place, number in enumerate(numbers)}
        rows = self._connection.all(
            "SELECT task, blocker FROM dependency WHERE workspace = :workspace"
            f" AND task IN ({', '.join(f':{name}' for name in names)})"
            f" AND EXISTS (SELECT 1 FROM task WHERE {self._scope} AND number = dependency.task) ORDER BY blocker",
            **self._bound,
            **names,
        )
        for number, blocker in rows:
            blockers[number].append(blocker)
        return blockers

    def unfinished_blockers(self, number: int) -> list[Task]:
        """The tasks that keep this one from being begun."""
        tasks = [self.get(blocker, deleted=True) for blocker in self.blockers(number)]
        return [task for task in tasks if not task.completed]

    def reaches(self, number: int, target: int) -> bool:
        """Whether a task depends on the target, over any number of others."""
        row = self._connection.one(
            "WITH RECURSIVE upstream (number) AS (SELECT CAST(:number AS BIGINT) UNION SELECT blocker"
            " FROM dependency JOIN upstream ON dependency.task = upstream.number WHERE workspace = :workspace)"
            f" SELECT 1 FROM upstream WHERE number = :target AND {self._holds('number')} LIMIT 1",
            number=number,
            target=target,
            **self._bound,
        )
        return row is not None

    def lock_graph(self) -> None:
        """Whoever changes dependencies at the same time goes after this work."""
        self._connection.execute(
            "INSERT INTO task_graph (workspace, version) VALUES (:workspace, 1)"
            " ON CONFLICT (workspace) DO UPDATE SET version = task_graph.version + 1",
            workspace=self._bound["workspace"],
        )

    def hold(self, number: int) -> None:
        """Whoever changes the task at the same time goes after this work, or makes it run again."""
        self._connection.execute(
            f"UPDATE task SET version = version WHERE {self._scope} AND number = :number", number=number, **self._bound
        )

    def add_blocker(self, number: int, blocker: int) -> bool:
        """Make a task wait for another; false when it does already."""
        added = self._connection.execute(
            "INSERT INTO dependency (workspace, task, blocker) SELECT :workspace, number, :blocker FROM task"
            f" WHERE {self._scope} AND number = :number AND {self._holds('blocker')}"
            " ON CONFLICT (workspace, task, blocker) DO NOTHING",
            number=number,
            blocker=blocker,
            **self._bound,
        )
        if added and not self.get(blocker, deleted=True).completed:
            self._count_blockers(number, 1)
        return added == 1

    def remove_blocker(self, number: int, blocker: int) -> bool:
        """Let a task go ahead of another; false when it did not wait for it."""
        removed = self._connection.execute(
            "DELETE FROM dependency WHERE workspace = :workspace AND task = :number AND blocker = :blocker"
            f" AND {self._holds('number')}",
            number=number,
            blocker=blocker,
            **self._bound,
        )
        if removed and not self.get(blocker, deleted=True).completed:
            self._count_blockers(number, -1)
        return removed == 1

    def _count_blockers(self, number: int, by: int) -> None:
        self._connection.execute(
            f"UPDATE task SET open_blockers = open_blockers + :by WHERE {self._scope} AND number = :number",
            number=number,
            by=by,
            **self._bound,
        )

    def release_dependents(self, blocker: int, by: int = -1) -> None:
        """The blocker was completed (or, with +1, is open again): those behind it have one less to wait for."""
        self._connection.execute(
            f"UPDATE task SET open_blockers = open_blockers + :by WHERE {self._scope} AND number IN"
            f" (SELECT task FROM dependency WHERE workspace = :workspace AND blocker = :blocker)"
            f" AND {self._holds('blocker')}",
            blocker=blocker,
            by=by,
            **self._bound,
        )

    def _holds(self, parameter: str) -> str:
        """That a task is within the scope: what hangs on another's task is not seen and not touched."""
        return f"EXISTS (SELECT 1 FROM task WHERE {self._scope} AND number = :{parameter})"

    def held_by(self, agent: str, limit: int) -> list[Task]:
        """What an agent has to do: begun tasks first, then those it was given."""
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM task WHERE {self._scope} AND assignee = :agent"
            " AND state IN ('ASSIGNED', 'IN_PROGRESS') AND deleted_at IS NULL ORDER BY state DESC, number LIMIT :limit",
            agent=agent,
            limit=limit,
            **self._bound,
        )
        return [_task(row) for row in rows]

    def left_by_silent(self, before: int, limit: int) -> list[Task]:
        """Tasks whose holder has not been heard of since then, and was not given them since either."""
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM task WHERE {self._scope} AND state IN ('ASSIGNED', 'IN_PROGRESS')"
            " AND deleted_at IS NULL AND updated_at < :before AND EXISTS (SELECT 1 FROM agent"
            " WHERE agent.workspace = task.workspace AND agent.name = task.assignee AND last_active_at < :before"
            " AND coalesce(waiting_until, 0) < :before) LIMIT :limit",
            before=before,
            limit=limit,
            **self._bound,
        )
        return sorted((_task(row) for row in rows), key=lambda task: (task.assignee or "", task.number))

    def any_open(self, board: str) -> Task | None:
        """A task of a board that is neither completed, failed nor cancelled, if there is one."""
        for state in (State.IN_PROGRESS, State.REVIEW, State.BLOCKED, State.ASSIGNED, State.PENDING):
            if found := self.page(limit=1, state=state, board=board):
                return found[0]
        return None

    def unindexed(self, since: int, limit: int) -> list[Change]:
        """Tasks that changed since then and that the index knows as they were before, or not at all, oldest first."""
        rows = self._connection.all(
            f"SELECT updated_at, CAST(number AS TEXT) FROM task WHERE {self._scope} AND kind <> 'list' AND updated_at >= :since"
            f" AND {_UNINDEXED} ORDER BY updated_at, number LIMIT :limit",
            since=since,
            limit=limit,
            **self._bound,
        )
        return [(at, ref) for at, ref in rows]

    def some(self, numbers: Sequence[int]) -> list[Task]:
        """Those of these tasks that are there."""
        if not numbers:
            return []
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM task WHERE {self._scope} AND deleted_at IS NULL"
            f" AND number IN ({', '.join(str(int(number)) for number in numbers)}) ORDER BY number",
            **self._bound,
        )
        return [_task(row) for row in rows]

    def add_comment(self, number: int, author: str, body: str, now: int) -> int:
        """The number of the new comment."""
        self.get(number)
        row = self._connection.one(
            "INSERT INTO comment (workspace, task, author, body, created_at)"
            " VALUES (:workspace, :number, :author, :body, :now) RETURNING id",
            workspace=self._bound["workspace"],
            number=number,
            author=author,
            body=body,
            now=now,
        )
        assert row is not None
        return int(row[0])

    def comments(self, number: int, limit: int) -> list[Comment]:
        """The newest comments on a task, oldest of them first."""
        rows = self._connection.all(
            "SELECT id, author, body, created_at FROM comment WHERE workspace = :workspace AND task = :number"
            f" AND {self._holds('number')} ORDER BY id DESC LIMIT :limit",
            number=number,
            limit=limit,
            **self._bound,
        )
        return [Comment(*row) for row in reversed(rows)]


class Comments:
    """What was said about the tasks that everybody may see: all but those of a user's own list."""

    def __init__(self, connection: Connection, workspace: int) -> None:
        self._connection = connection
        self._workspace = workspace

    def unindexed(self, limit: int) -> list[Change]:
        """Comments that the index does not know, oldest first. They never change, so it looks from the newest it knows.

        The plus keeps engines from looking at all comments by their workspace.
        """
        rows = self._connection.all(
            "SELECT created_at, CAST(comment.id AS TEXT) FROM comment WHERE +comment.workspace = :workspace"
            " AND comment.id > COALESCE((SELECT CAST(ref AS BIGINT) FROM passage WHERE workspace = :workspace AND root = ''"
            " AND source = 'comment' ORDER BY changed_at DESC LIMIT 1), 0) - :late"
            f" AND {_UNINDEXED_COMMENT} AND {_SEEN_BY_ALL} ORDER BY comment.id LIMIT :limit",
            workspace=self._workspace,
            late=_LATE,
            limit=limit,
        )
        return [(at, ref) for at, ref in rows]

    def some(self, ids: Sequence[int]) -> list[tuple[int, Comment]]:
        """Those of these comments that are there, each with the number of its task."""
        if not ids:
            return []
        rows = self._connection.all(
            "SELECT comment.task, comment.id, comment.author, comment.body, comment.created_at FROM comment"
            f" WHERE comment.workspace = :workspace AND comment.id IN ({', '.join(str(int(id)) for id in ids)})"
            f" AND {_SEEN_BY_ALL} ORDER BY comment.id",
            workspace=self._workspace,
        )
        return [(row[0], Comment(*row[1:])) for row in rows]


def _task(row: Row) -> Task:
    values = list(row)
    values[5] = State(values[5])
    return Task(*values)
