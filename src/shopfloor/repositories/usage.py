"""Tokens and cost by day."""

from __future__ import annotations

from shopfloor.domain.usage import UsageDay, UsageKind
from shopfloor.repositories.repository import Repository


class Usage(Repository):
    """Usage of the agents of a workspace."""

    def add(self, kind: UsageKind, name: str, day: int, tokens: int, cost: int) -> None:
        """Add tokens and cost to a day."""
        self._connection.execute(
            """
            INSERT INTO usage (workspace, kind, name, day, tokens, cost)
            VALUES (:workspace, :kind, :name, :day, :tokens, :cost)
            ON CONFLICT (workspace, kind, name, day) DO UPDATE
            SET tokens = usage.tokens + :tokens, cost = usage.cost + :cost
            """,
            workspace=self._workspace,
            kind=kind.value,
            name=name,
            day=day,
            tokens=tokens,
            cost=cost,
        )

    def list_days(self, kind: UsageKind, name: str, since: int, limit: int) -> list[UsageDay]:
        """Return the days with usage since `since`, in order."""
        rows = self._connection.fetch_all(
            """
            SELECT day, tokens, cost FROM usage
            WHERE workspace = :workspace AND kind = :kind AND name = :name AND day >= :since
            ORDER BY day LIMIT :limit
            """,
            workspace=self._workspace,
            kind=kind.value,
            name=name,
            since=since,
            limit=limit,
        )
        return [UsageDay(*row) for row in rows]
