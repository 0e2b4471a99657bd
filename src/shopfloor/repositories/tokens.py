"""Credentials: only what is needed to check and revoke them."""

from __future__ import annotations

from shopfloor.domain.principals import Kind, Token
from shopfloor.errors import NotFound
from shopfloor.repositories.repository import Repository
from shopfloor.store.credential_version import CREDENTIALS_TOPIC
from shopfloor.store.protocol import Row

_COLUMNS = "id, kind, owner, digest, created_at, expires_at, revoked_at"


class Tokens(Repository):
    """Tokens of a workspace, by their public id."""

    def get(self, id: str) -> Token:
        """Return the token, even a revoked one, or raise NotFound."""
        row = self._connection.fetch_one(
            f"""
            SELECT {_COLUMNS} FROM token
            WHERE id = :id AND workspace = :workspace
            """,
            id=id,
            workspace=self._workspace,
        )
        if row is None:
            raise NotFound(f"Token '{id}' does not exist", token=id)
        return _token(row)

    def add(self, token: Token) -> None:
        self._connection.execute(
            """
            INSERT INTO token (id, workspace, kind, owner, digest, created_at, expires_at)
            VALUES (:id, :workspace, :kind, :owner, :digest, :created_at, :expires_at)
            """,
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
            """
            UPDATE token SET revoked_at = :now
            WHERE id = :id AND workspace = :workspace AND revoked_at IS NULL
            """,
            id=id,
            workspace=self._workspace,
            now=now,
        )
        # Empties the caches of all processes; see store/credential_version.py.
        self._connection.notify_on_commit(CREDENTIALS_TOPIC)

    def revoke_all(self, kind: Kind, owner: str, now: int) -> None:
        """Revoke every token of one owner."""
        self._connection.execute(
            """
            UPDATE token SET revoked_at = :now
            WHERE workspace = :workspace AND kind = :kind AND owner = :owner AND revoked_at IS NULL
            """,
            workspace=self._workspace,
            kind=kind.value,
            owner=owner,
            now=now,
        )
        self._connection.notify_on_commit(CREDENTIALS_TOPIC)

    def revoke_kind(self, kind: Kind, now: int) -> int:
        """Revoke every token of a kind and return how many."""
        revoked = self._connection.execute(
            """
            UPDATE token SET revoked_at = :now
            WHERE workspace = :workspace AND kind = :kind AND revoked_at IS NULL
            """,
            workspace=self._workspace,
            kind=kind.value,
            now=now,
        )
        self._connection.notify_on_commit(CREDENTIALS_TOPIC)
        return revoked

    def redeem(self, id: str, now: int) -> bool:
        """Redeem a sign-in link. Return False if it is used, expired or unknown."""
        # One statement checks and redeems the link, so that two visitors with the same link cannot both sign in.
        taken = self._connection.execute(
            """
            UPDATE token SET revoked_at = :now
            WHERE id = :id
              AND workspace = :workspace
              AND kind = 'link'
              AND revoked_at IS NULL
              AND expires_at > :now
            """,
            id=id,
            workspace=self._workspace,
            now=now,
        )
        return taken == 1

    def purge_page_sessions(self, before: int, limit: int) -> int:
        """Delete page sessions and links that expired before `before` and return how many."""
        return self._connection.execute(
            """
            DELETE FROM token
            WHERE id IN (SELECT id FROM token WHERE workspace = :workspace AND kind IN ('page', 'link')
                AND expires_at < :before ORDER BY expires_at LIMIT :limit)
            """,
            workspace=self._workspace,
            before=before,
            limit=limit,
        )

    def list_page(self, limit: int, after: str = "") -> list[Token]:
        """Return tokens of agents, users and the operator in the order of their ids, after `after`."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM token
            WHERE workspace = :workspace AND kind IN ('agent', 'user', 'operator') AND id > :after
            ORDER BY id LIMIT :limit
            """,
            workspace=self._workspace,
            after=after,
            limit=limit,
        )
        return [_token(row) for row in rows]

    def list_of_owner(self, kind: Kind, owner: str, limit: int) -> list[Token]:
        """Return the tokens of one agent or user, the latest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM token
            WHERE workspace = :workspace AND kind = :kind AND owner = :owner
            ORDER BY created_at DESC LIMIT :limit
            """,
            workspace=self._workspace,
            kind=kind.value,
            owner=owner,
            limit=limit,
        )
        return [_token(row) for row in rows]


def _token(row: Row) -> Token:
    id, kind, owner, digest, created_at, expires_at, revoked_at = row
    return Token(id, Kind(kind), owner, digest, created_at, expires_at, revoked_at)
