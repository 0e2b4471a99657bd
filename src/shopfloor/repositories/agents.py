"""The agents of a workspace."""

from __future__ import annotations

from shopfloor.domain.actors import Agent
from shopfloor.errors import AgentNotFound
from shopfloor.store.database import Connection, Row

_COLUMNS = (
    "name, type, supervisor, current_epic, current_task, tmux_session_name,"
    " last_active_at, created_at, updated_at, retired_at"
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

    def page(self, limit: int, after: str = "") -> list[Agent]:
        """Agents in the order of their names, beginning after one."""
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM agent WHERE workspace = :workspace AND name > :after ORDER BY name LIMIT :limit",
            workspace=self._workspace,
            after=after,
            limit=limit,
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


def _agent(row: Row) -> Agent:
    return Agent(*row)
