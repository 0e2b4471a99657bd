"""Failures of the floor that somebody in charge must know of."""

from __future__ import annotations

from dataclasses import dataclass

from shopfloor.errors import NotFound
from shopfloor.store.database import Connection

_COLUMNS = "id, subject, tool, code, message, stack, reference, count, first_at, last_at, recipient, mail"


@dataclass(frozen=True, slots=True)
class Escalation:
    """One failure, and how often it came again within five minutes."""

    id: int
    subject: str
    tool: str
    code: str
    message: str
    stack: str
    reference: int
    count: int
    first_at: int
    last_at: int
    recipient: str | None
    mail: int | None


class Escalations:
    """The escalations of a workspace."""

    def __init__(self, connection: Connection, workspace: int) -> None:
        self._connection = connection
        self._workspace = workspace

    def add(
        self, *, subject: str, tool: str, code: str, message: str, stack: str, reference: int, since: int, now: int
    ) -> int | None:
        """The number of a new escalation, or None when it was merged into one that began after `since`."""
        merged = self._connection.execute(
            "UPDATE escalation SET count = count + 1, last_at = :now WHERE workspace = :workspace AND id ="
            " (SELECT max(id) FROM escalation WHERE workspace = :workspace AND subject = :subject AND tool = :tool"
            " AND code = :code AND first_at >= :since)",
            workspace=self._workspace,
            subject=subject,
            tool=tool,
            code=code,
            since=since,
            now=now,
        )
        if merged:
            return None
        row = self._connection.one(
            "INSERT INTO escalation (workspace, subject, tool, code, message, stack, reference, first_at, last_at)"
            " VALUES (:workspace, :subject, :tool, :code, :message, :stack, :reference, :now, :now) RETURNING id",
            workspace=self._workspace,
            subject=subject,
            tool=tool,
            code=code,
            message=message,
            stack=stack,
            reference=reference,
            now=now,
        )
        assert row is not None
        return int(row[0])

    def get(self, id: int) -> Escalation:
        row = self._connection.one(
            f"SELECT {_COLUMNS} FROM escalation WHERE workspace = :workspace AND id = :id",
            workspace=self._workspace,
            id=id,
        )
        if row is None:
            raise NotFound(f"Escalation {id} does not exist", escalation=id)
        return Escalation(*row)

    def page(self, limit: int) -> list[Escalation]:
        """Escalations, newest first."""
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM escalation WHERE workspace = :workspace ORDER BY id DESC LIMIT :limit",
            workspace=self._workspace,
            limit=limit,
        )
        return [Escalation(*row) for row in rows]

    def mailed(self, recipient: str, since: int) -> tuple[int, int]:
        """How many mails told this recipient of escalations since then, and the newest of them."""
        row = self._connection.one(
            "SELECT count(DISTINCT mail), coalesce(max(mail), 0) FROM escalation"
            " WHERE workspace = :workspace AND recipient = :recipient AND first_at >= :since",
            workspace=self._workspace,
            recipient=recipient,
            since=since,
        )
        assert row is not None
        return int(row[0]), int(row[1])

    def tell(self, id: int, recipient: str, mail: int) -> None:
        """Note which mail tells of the escalation."""
        self._connection.execute(
            "UPDATE escalation SET recipient = :recipient, mail = :mail WHERE workspace = :workspace AND id = :id",
            workspace=self._workspace,
            id=id,
            recipient=recipient,
            mail=mail,
        )

    def first_of(self, mail: int) -> Escalation | None:
        """The first failure that a mail tells of."""
        row = self._connection.one(
            f"SELECT {_COLUMNS} FROM escalation WHERE workspace = :workspace AND mail = :mail ORDER BY id LIMIT 1",
            workspace=self._workspace,
            mail=mail,
        )
        return None if row is None else Escalation(*row)

    def told_by(self, mail: int) -> tuple[int, int, int]:
        """How many failures a mail stands for, when the last one was, and how many kinds there are."""
        row = self._connection.one(
            "SELECT coalesce(sum(count), 0), coalesce(max(last_at), 0), count(*) FROM escalation"
            " WHERE workspace = :workspace AND mail = :mail",
            workspace=self._workspace,
            mail=mail,
        )
        assert row is not None
        return int(row[0]), int(row[1]), int(row[2])
