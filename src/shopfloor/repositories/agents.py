"""The agents of a workspace."""

from __future__ import annotations

from shopfloor.domain.actors import Agent
from shopfloor.errors import AgentNotFound
from shopfloor.store.database import Connection, Row

_COLUMNS = (
    "name, type, supervisor, current_epic, current_task, tmux_session_name,"
    " last_active_at, created_at, updated_at, retired_at, waiting_until, failed_at, retry_at, failures"
)


class Agents:
    """Agents, by name."""

    def __init__(self, connection: Connection, workspace: int) -> None:
        self._connection = connection
        self._workspace = workspace

    def get(self, name: str) -> Agent:
        """The agent, also a retired one."""
        row = self._connection.one(
            f"SELECT {_COLUMNS} FROM agent WHERE workspace = :workspace AND name = :name",
            workspace=self._workspace,
            name=name,
        )
        if row is None:
            raise AgentNotFound(agent=name)
        return _agent(row)

    def active(self, name: str) -> Agent:
        """The agent, unless it has retired."""
        agent = self.get(name)
        if agent.retired_at is not None:
            raise AgentNotFound(agent=name)
        return agent

    def namesake(self, name: str) -> str | None:
        """The name of an agent that is the same but for capitals, retired or not."""
        row = self._connection.one(
            "SELECT name FROM agent WHERE workspace = :workspace AND lower(name) = :folded ORDER BY name LIMIT 1",
            workspace=self._workspace,
            folded=name.lower(),
        )
        return None if row is None else str(row[0])

    def page(self, limit: int, after: str = "", *, type: str | None = None, active: bool = False) -> list[Agent]:
        """Agents in the order of their names, beginning after one."""
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM agent WHERE workspace = :workspace AND name > :after"
            f"{' AND type = :type' if type else ''}{' AND retired_at IS NULL' if active else ''}"
            " ORDER BY name LIMIT :limit",
            workspace=self._workspace,
            after=after,
            limit=limit,
            **({"type": type} if type else {}),
        )
        return [_agent(row) for row in rows]

    def add(self, name: str, type: str, supervisor: str | None, tmux_session_name: str | None, now: int) -> bool:
        """Add an agent; false when the name is taken."""
        added = self._connection.execute(
            "INSERT INTO agent (workspace, name, type, supervisor, tmux_session_name,"
            " last_active_at, created_at, updated_at)"
            " VALUES (:workspace, :name, :type, :supervisor, :tmux, :now, :now, :now)"
            " ON CONFLICT (workspace, name) DO NOTHING",
            workspace=self._workspace,
            name=name,
            type=type,
            supervisor=supervisor,
            tmux=tmux_session_name,
            now=now,
        )
        return added == 1

    def retire(self, name: str, now: int) -> None:
        """From now on the agent exists in the log only."""
        self._connection.execute(
            "UPDATE agent SET retired_at = :now, updated_at = :now"
            " WHERE workspace = :workspace AND name = :name AND retired_at IS NULL",
            workspace=self._workspace,
            name=name,
            now=now,
        )

    def touch(self, name: str, now: int) -> None:
        """The agent was active."""
        self._connection.execute(
            "UPDATE agent SET last_active_at = :now"
            " WHERE workspace = :workspace AND name = :name AND last_active_at < :now",
            workspace=self._workspace,
            name=name,
            now=now,
        )

    def hold(self, name: str, task: int | None, now: int) -> None:
        """What the agent has in hand; nothing, or one task."""
        self._set(name, now, current_task=task)

    def join(self, name: str, epic: int | None, now: int) -> None:
        """The epic that the agent works for."""
        self._set(name, now, current_epic=epic)

    def wait(self, name: str, until: int | None) -> None:
        """The agent waits for something until then, or no longer."""
        self._connection.execute(
            "UPDATE agent SET waiting_until = :until WHERE workspace = :workspace AND name = :name",
            workspace=self._workspace,
            name=name,
            until=until,
        )

    def add_crash(self, name: str, now: int, since: int) -> int:
        """Count a crash; how many there were since then. Older ones are forgotten."""
        self._connection.execute(
            "DELETE FROM crash WHERE workspace = :workspace AND agent = :name AND created_at < :since",
            workspace=self._workspace,
            name=name,
            since=since,
        )
        self._connection.execute(
            "INSERT INTO crash (workspace, agent, created_at) VALUES (:workspace, :name, :now)",
            workspace=self._workspace,
            name=name,
            now=now,
        )
        row = self._connection.one(
            "SELECT count(*) FROM crash WHERE workspace = :workspace AND agent = :name",
            workspace=self._workspace,
            name=name,
        )
        assert row is not None
        return int(row[0])

    def fail(self, name: str, retry_at: int, failures: int, now: int) -> None:
        """Mark the agent as failed until it may try again."""
        self._set(name, now, failed_at=now, retry_at=retry_at, failures=failures)

    def recover(self, name: str, now: int) -> None:
        """The agent counts as sound again."""
        self._set(name, now, failed_at=None, retry_at=None, failures=0)

    def on_probation(self, before: int, limit: int) -> list[Agent]:
        """Failed agents that could have tried again since before then."""
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM agent WHERE workspace = :workspace AND failed_at IS NOT NULL"
            " AND retry_at < :before ORDER BY retry_at LIMIT :limit",
            workspace=self._workspace,
            before=before,
            limit=limit,
        )
        return [_agent(row) for row in rows]

    def _set(self, agent: str, now: int, **changes: int | None) -> None:
        self._connection.execute(
            f"UPDATE agent SET {''.join(f'{name} = :{name}, ' for name in changes)}updated_at = :now"
            " WHERE workspace = :workspace AND name = :agent",
            workspace=self._workspace,
            agent=agent,
            now=now,
            **changes,
        )


def _agent(row: Row) -> Agent:
    return Agent(*row)
