"""Credentials: only what is needed to check and to revoke them."""

from __future__ import annotations

from shopfloor.domain.actors import Kind, Token
from shopfloor.errors import NotFound
from shopfloor.store.database import Connection, Row

_COLUMNS = "id, kind, owner, digest, created_at, expires_at, revoked_at"


class Tokens:
    """Tokens of a workspace, by their public id."""

    def __init__(self, connection: Connection, workspace: int) -> None:
        self._connection = connection
        self._workspace = workspace

    def get(self, id: str) -> Token:
        """The token, also a revoked one."""
        row = self._connection.one(
            f"SELECT {_COLUMNS} FROM token WHERE id = :id AND workspace = :workspace",
            id=id,
            workspace=self._workspace,
        )
        if row is None:
            raise NotFound(f"Token '{id}' does not exist", token=id)
        return _token(row)

    def add(self, token: Token) -> None:
        self._connection.execute(
            "INSERT INTO token (id, workspace, kind, owner, digest, created_at, expires_at)"
            " VALUES (:id, :workspace, :kind, :owner, :digest, :created_at, :expires_at)",
            id=token.id,
            workspace=self._workspace,
            kind=token.kind.value,
            owner=token.owner,
            digest=token.digest,
            created_at=token.created_at,
            expires_at=token.expires_at,
        )

    def revoke(self, id: str, now: int) -> None:
        self._connection.execute(
            "UPDATE token SET revoked_at = :now WHERE id = :id AND workspace = :workspace AND revoked_at IS NULL",
            id=id,
            workspace=self._workspace,
            now=now,
        )
        self._connection.hint("token")

    def revoke_all(self, kind: Kind, owner: str, now: int) -> None:
        """Revoke every token of one owner."""
        self._connection.execute(
            "UPDATE token SET revoked_at = :now"
            " WHERE workspace = :workspace AND kind = :kind AND owner = :owner AND revoked_at IS NULL",
            workspace=self._workspace,
            kind=kind.value,
            owner=owner,
            now=now,
        )
        self._connection.hint("token")

    def use_up(self, id: str, now: int) -> bool:
        """Take a one-time link; false when it is used, over, or none."""
        taken = self._connection.execute(
            "UPDATE token SET revoked_at = :now WHERE id = :id AND workspace = :workspace AND kind = 'link'"
            " AND revoked_at IS NULL AND expires_at > :now",
            id=id,
            workspace=self._workspace,
            now=now,
        )
        return taken == 1

    def forget_pages(self, before: int, limit: int) -> int:
        """How many sessions of pages that ended before then are forgotten."""
        return self._connection.execute(
            "DELETE FROM token WHERE id IN (SELECT id FROM token WHERE workspace = :workspace AND kind IN ('page', 'link')"
            " AND expires_at < :before ORDER BY expires_at LIMIT :limit)",
            workspace=self._workspace,
            before=before,
            limit=limit,
        )

    def page(self, limit: int, after: str = "") -> list[Token]:
        """Tokens of agents and users in the order of their ids, beginning after one."""
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM token WHERE workspace = :workspace AND kind IN ('agent', 'user')"
            " AND id > :after ORDER BY id LIMIT :limit",
            workspace=self._workspace,
            after=after,
            limit=limit,
        )
        return [_token(row) for row in rows]


def _token(row: Row) -> Token:
    id, kind, owner, digest, created_at, expires_at, revoked_at = row
    return Token(id, Kind(kind), owner, digest, created_at, expires_at, revoked_at)
