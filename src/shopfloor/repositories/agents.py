"""The agents of a workspace."""

from __future__ import annotations

from shopfloor.domain.principals import Agent
from shopfloor.errors import AgentNotFound
from shopfloor.repositories.repository import Repository
from shopfloor.store.protocol import Row

_COLUMNS = (
    "name, type, supervisor, current_epic, current_task, tmux_session_name,"
    " last_active_at, created_at, updated_at, retired_at, waiting_until, failed_at, retry_at, failures"
)


class Agents(Repository):
    """Agents, by name."""

    def get(self, name: str) -> Agent:
        """Return the agent, even a retired one, or raise AgentNotFound."""
        row = self._connection.fetch_one(
            f"""
            SELECT {_COLUMNS} FROM agent
            WHERE workspace = :workspace AND name = :name
            """,
            workspace=self._workspace,
            name=name,
        )
        if row is None:
            raise AgentNotFound(agent=name)
        return _agent(row)

    def get_active(self, name: str) -> Agent:
        """Return the agent, or raise AgentNotFound if it is missing or retired."""
        agent = self.get(name)
        if agent.retired_at is not None:
            raise AgentNotFound(agent=name)
        return agent

    def find_case_variant(self, name: str) -> str | None:
        """Return the name of an agent, retired or not, that is equal up to case."""
        row = self._connection.fetch_one(
            """
            SELECT name FROM agent
            WHERE workspace = :workspace AND folded = :folded
            """,
            workspace=self._workspace,
            folded=name.lower(),
        )
        return None if row is None else str(row[0])

    def list_page(self, limit: int, after: str = "", *, type: str | None = None, active: bool = False) -> list[Agent]:
        """Return agents in the order of their names, after `after`."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM agent
            WHERE workspace = :workspace AND name > :after
              AND (type = :type OR :type IS NULL)
              AND (retired_at IS NULL OR :active = 0)
            ORDER BY name LIMIT :limit
            """,
            workspace=self._workspace,
            after=after,
            limit=limit,
            type=type,
            active=active,
        )
        return [_agent(row) for row in rows]

    def add(self, name: str, type: str, supervisor: str | None, tmux_session_name: str | None, now: int) -> bool:
        """Add an agent. Return False if the name is taken, in any case."""
        added = self._connection.execute(
            """
            INSERT INTO agent (workspace, name, folded, type, supervisor, tmux_session_name, last_active_at,
                created_at, updated_at)
            VALUES (:workspace, :name, :folded, :type, :supervisor, :tmux, :now, :now, :now)
            ON CONFLICT DO NOTHING
            """,
            workspace=self._workspace,
            name=name,
            folded=name.lower(),
            type=type,
            supervisor=supervisor,
            tmux=tmux_session_name,
            now=now,
        )
        return added == 1

    def retire(self, name: str, now: int) -> None:
        """Retire the agent: it stays only in the log."""
        self._connection.execute(
            """
            UPDATE agent SET retired_at = :now, updated_at = :now
            WHERE workspace = :workspace AND name = :name AND retired_at IS NULL
            """,
            workspace=self._workspace,
            name=name,
            now=now,
        )

    def touch(self, name: str, now: int) -> None:
        """Record that the agent was active."""
        self._connection.send(
            """
            UPDATE agent SET last_active_at = :now
            WHERE workspace = :workspace AND name = :name AND last_active_at < :now
            """,
            workspace=self._workspace,
            name=name,
            now=now,
        )

    def set_task(self, name: str, task: int | None, now: int) -> None:
        """Set the task that the agent works on, or none."""
        self._connection.execute(
            """
            UPDATE agent SET current_task = :task, updated_at = :now
            WHERE workspace = :workspace AND name = :name
            """,
            workspace=self._workspace,
            name=name,
            task=task,
            now=now,
        )

    def set_epic(self, name: str, epic: int | None, now: int) -> None:
        """Set the epic that the agent works for, or none."""
        self._connection.execute(
            """
            UPDATE agent SET current_epic = :epic, updated_at = :now
            WHERE workspace = :workspace AND name = :name
            """,
            workspace=self._workspace,
            name=name,
            epic=epic,
            now=now,
        )

    def set_waiting_until(self, name: str, until: int | None) -> None:
        """Set until when the agent waits for an event, or that it does not wait."""
        self._connection.execute(
            """
            UPDATE agent SET waiting_until = :until
            WHERE workspace = :workspace AND name = :name
            """,
            workspace=self._workspace,
            name=name,
            until=until,
        )

    def record_crash(self, name: str, now: int, since: int) -> int:
        """Record a crash, drop those before `since` and return the number left."""
        self._connection.execute(
            """
            DELETE FROM crash
            WHERE workspace = :workspace AND agent = :name AND created_at < :since
            """,
            workspace=self._workspace,
            name=name,
            since=since,
        )
        self._connection.execute(
            """
            INSERT INTO crash (workspace, agent, created_at)
            VALUES (:workspace, :name, :now)
            """,
            workspace=self._workspace,
            name=name,
            now=now,
        )
        row = self._connection.fetch_one(
            """
            SELECT count(*) FROM crash
            WHERE workspace = :workspace AND agent = :name
            """,
            workspace=self._workspace,
            name=name,
        )
        assert row is not None
        return int(row[0])

    def mark_failed(self, name: str, retry_at: int, failures: int, now: int) -> None:
        """Mark the agent as failed until it may try again."""
        self._connection.execute(
            """
            UPDATE agent SET failed_at = :now, retry_at = :retry_at, failures = :failures, updated_at = :now
            WHERE workspace = :workspace AND name = :name
            """,
            workspace=self._workspace,
            name=name,
            retry_at=retry_at,
            failures=failures,
            now=now,
        )

    def mark_recovered(self, name: str, now: int) -> None:
        """Clear the agent's failure."""
        self._connection.execute(
            """
            UPDATE agent SET failed_at = NULL, retry_at = NULL, failures = 0, updated_at = :now
            WHERE workspace = :workspace AND name = :name
            """,
            workspace=self._workspace,
            name=name,
            now=now,
        )

    def list_probation_ended(self, before: int, limit: int) -> list[Agent]:
        """Return failed agents whose retry time was before `before`."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM agent
            WHERE workspace = :workspace AND failed_at IS NOT NULL AND retry_at < :before
            ORDER BY retry_at LIMIT :limit
            """,
            workspace=self._workspace,
            before=before,
            limit=limit,
        )
        return [_agent(row) for row in rows]


def _agent(row: Row) -> Agent:
    return Agent(*row)
