"""The users of a workspace."""

from __future__ import annotations

from shopfloor.domain.actors import Person
from shopfloor.errors import NotFound
from shopfloor.store.database import Connection


class People:
    """Users, by name."""

    def __init__(self, connection: Connection, workspace: int) -> None:
        self._connection = connection
        self._workspace = workspace

    def get(self, name: str) -> Person:
        """The user, also a removed one."""
        row = self._connection.one(
            "SELECT name, created_at, removed_at, desk FROM person WHERE workspace = :workspace AND name = :name",
            workspace=self._workspace,
            name=name,
        )
        if row is None:
            raise NotFound(f"User '{name}' does not exist", user=name)
        return Person(*row)

    def active(self, name: str) -> Person:
        """The user, unless it was removed."""
        person = self.get(name)
        if person.removed_at is not None:
            raise NotFound(f"User '{name}' was removed", user=name)
        return person

    def add(self, name: str, now: int) -> bool:
        """Add a user, or bring a removed one back; false when there is one of that name."""
        added = self._connection.execute(
            "INSERT INTO person (workspace, name, created_at) VALUES (:workspace, :name, :now)"
            " ON CONFLICT (workspace, name) DO UPDATE SET removed_at = NULL WHERE person.removed_at IS NOT NULL",
            workspace=self._workspace,
            name=name,
            now=now,
        )
        return added == 1

    def ensure(self, name: str, now: int) -> None:
        """Somebody who writes for the first time is a user from now on; a removed one stays removed."""
        self._connection.execute(
            "INSERT INTO person (workspace, name, created_at) VALUES (:workspace, :name, :now)"
            " ON CONFLICT (workspace, name) DO NOTHING",
            workspace=self._workspace,
            name=name,
            now=now,
        )

    def remove(self, name: str, now: int) -> None:
        """From now on there is no such user; the password is forgotten at once."""
        self._connection.execute(
            "UPDATE person SET removed_at = :now, password_hash = NULL"
            " WHERE workspace = :workspace AND name = :name AND removed_at IS NULL",
            workspace=self._workspace,
            name=name,
            now=now,
        )

    def removed_before(self, moment: int, limit: int) -> list[str]:
        """Users who were removed before then."""
        rows = self._connection.all(
            "SELECT name FROM person WHERE workspace = :workspace AND removed_at > 0 AND removed_at < :moment"
            " ORDER BY removed_at LIMIT :limit",
            workspace=self._workspace,
            moment=moment,
            limit=limit,
        )
        return [row[0] for row in rows]

    def forget(self, name: str) -> None:
        """Nothing is left of a removed user but the name, so that no token of an issuer brings the user back."""
        self._connection.execute(
            "UPDATE person SET removed_at = 0 WHERE workspace = :workspace AND name = :name AND removed_at IS NOT NULL",
            workspace=self._workspace,
            name=name,
        )

    def set_password(self, name: str, hashed: str) -> None:
        self._connection.execute(
            "UPDATE person SET password_hash = :hashed"
            " WHERE workspace = :workspace AND name = :name AND removed_at IS NULL",
            workspace=self._workspace,
            name=name,
            hashed=hashed,
        )

    def password_hash(self, name: str) -> str | None:
        """What a password is checked against; nothing for whoever has none, is removed or never was."""
        row = self._connection.one(
            "SELECT password_hash FROM person WHERE workspace = :workspace AND name = :name AND removed_at IS NULL",
            workspace=self._workspace,
            name=name,
        )
        return None if row is None else row[0]

    def seat(self, name: str, desk: str | None) -> None:
        """What the user may do at the desk from now on."""
        self._connection.execute(
            "UPDATE person SET desk = :desk WHERE workspace = :workspace AND name = :name",
            workspace=self._workspace,
            name=name,
            desk=desk,
        )
        self._connection.hint("token")

    def page(self, limit: int, after: str = "") -> list[Person]:
        """Users in the order of their names, beginning after one."""
        rows = self._connection.all(
            "SELECT name, created_at, removed_at, desk FROM person"
            " WHERE workspace = :workspace AND name > :after ORDER BY name LIMIT :limit",
            workspace=self._workspace,
            after=after,
            limit=limit,
        )
        return [Person(*row) for row in rows]
