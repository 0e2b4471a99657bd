"""The users of a workspace."""

from __future__ import annotations

from shopfloor.domain.principals import User
from shopfloor.errors import NotFound
from shopfloor.repositories.repository import Repository
from shopfloor.store.credential_version import CREDENTIALS_TOPIC


class Users(Repository):
    """Users, by name."""

    def get(self, name: str) -> User:
        """Return the user, even a removed one, or raise NotFound."""
        row = self._connection.fetch_one(
            """
            SELECT name, created_at, removed_at, desk FROM person
            WHERE workspace = :workspace AND name = :name
            """,
            workspace=self._workspace,
            name=name,
        )
        if row is None:
            raise NotFound(f"User '{name}' does not exist", user=name)
        return User(*row)

    def get_active(self, name: str) -> User:
        """Return the user, or raise NotFound if missing or removed."""
        person = self.get(name)
        if person.removed_at is not None:
            raise NotFound(f"User '{name}' was removed", user=name)
        return person

    def add(self, name: str, now: int) -> bool:
        """Add a user or restore a removed one. Return False if the user exists."""
        added = self._connection.execute(
            """
            INSERT INTO person (workspace, name, created_at)
            VALUES (:workspace, :name, :now)
            ON CONFLICT (workspace, name) DO UPDATE SET removed_at = NULL
            WHERE person.removed_at IS NOT NULL
            """,
            workspace=self._workspace,
            name=name,
            now=now,
        )
        return added == 1

    def ensure(self, name: str, now: int) -> None:
        """Add the user unless present. A removed user stays removed."""
        self._connection.execute(
            """
            INSERT INTO person (workspace, name, created_at)
            VALUES (:workspace, :name, :now)
            ON CONFLICT (workspace, name) DO NOTHING
            """,
            workspace=self._workspace,
            name=name,
            now=now,
        )

    def remove(self, name: str, now: int) -> None:
        """Mark the user as removed and delete the password."""
        self._connection.execute(
            """
            UPDATE person SET removed_at = :now, password_hash = NULL
            WHERE workspace = :workspace AND name = :name AND removed_at IS NULL
            """,
            workspace=self._workspace,
            name=name,
            now=now,
        )

    def list_removed_before(self, moment: int, limit: int) -> list[str]:
        """Return the names of users removed before `moment`."""
        rows = self._connection.fetch_all(
            """
            SELECT name FROM person
            WHERE workspace = :workspace AND removed_at > 0 AND removed_at < :moment
            ORDER BY removed_at LIMIT :limit
            """,
            workspace=self._workspace,
            moment=moment,
            limit=limit,
        )
        return [row[0] for row in rows]

    def mark_purged(self, name: str) -> None:
        """Mark a removed user as purged. The name is kept, so that no issuer's token restores the user."""
        self._connection.execute(
            """
            UPDATE person SET removed_at = 0
            WHERE workspace = :workspace AND name = :name AND removed_at IS NOT NULL
            """,
            workspace=self._workspace,
            name=name,
        )

    def set_password(self, name: str, hashed: str) -> None:
        self._connection.execute(
            """
            UPDATE person SET password_hash = :hashed
            WHERE workspace = :workspace AND name = :name AND removed_at IS NULL
            """,
            workspace=self._workspace,
            name=name,
            hashed=hashed,
        )

    def find_password_hash(self, name: str) -> str | None:
        """Return the hash of the user's password, or None if there is none or the user is removed or unknown."""
        row = self._connection.fetch_one(
            """
            SELECT password_hash FROM person
            WHERE workspace = :workspace AND name = :name AND removed_at IS NULL
            """,
            workspace=self._workspace,
            name=name,
        )
        return None if row is None else row[0]

    def set_desk_role(self, name: str, desk: str | None) -> None:
        """Set the user's desk role."""
        self._connection.execute(
            """
            UPDATE person SET desk = :desk
            WHERE workspace = :workspace AND name = :name
            """,
            workspace=self._workspace,
            name=name,
            desk=desk,
        )
        self._connection.notify_on_commit(CREDENTIALS_TOPIC)

    def list_page(self, limit: int, after: str = "") -> list[User]:
        """Return users in the order of their names, after `after`."""
        rows = self._connection.fetch_all(
            """
            SELECT name, created_at, removed_at, desk FROM person
            WHERE workspace = :workspace AND name > :after
            ORDER BY name LIMIT :limit
            """,
            workspace=self._workspace,
            after=after,
            limit=limit,
        )
        return [User(*row) for row in rows]
