"""Failures that the supervisor or the operator must know about."""

from __future__ import annotations

from dataclasses import dataclass

from shopfloor.errors import NotFound
from shopfloor.repositories.repository import Repository

_COLUMNS = "id, subject, tool, code, message, stack, reference, count, first_at, last_at, recipient, mail"


@dataclass(frozen=True, slots=True)
class Escalation:
    """One failure, and how often it recurred within five minutes."""

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


class Escalations(Repository):
    """The escalations of a workspace."""

    def add(
        self, *, subject: str, tool: str, code: str, message: str, stack: str, reference: int, since: int, now: int
    ) -> int | None:
        """Add an escalation and return its number, or None if it was merged into one that began after `since`."""
        merged = self._connection.execute(
            """
            UPDATE escalation SET count = count + 1, last_at = :now
            WHERE workspace = :workspace
              AND id = (SELECT max(id) FROM escalation WHERE workspace = :workspace AND subject = :subject
                AND tool = :tool AND code = :code AND first_at >= :since)
            """,
            workspace=self._workspace,
            subject=subject,
            tool=tool,
            code=code,
            since=since,
            now=now,
        )
        if merged:
            return None
        row = self._connection.fetch_one(
            """
            INSERT INTO escalation (workspace, subject, tool, code, message, stack, reference, first_at,
                last_at)
            VALUES (:workspace, :subject, :tool, :code, :message, :stack, :reference, :now, :now)
            RETURNING id
            """,
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
        row = self._connection.fetch_one(
            f"""
            SELECT {_COLUMNS} FROM escalation
            WHERE workspace = :workspace AND id = :id
            """,
            workspace=self._workspace,
            id=id,
        )
        if row is None:
            raise NotFound(f"Escalation {id} does not exist", escalation=id)
        return Escalation(*row)

    def list_page(self, limit: int) -> list[Escalation]:
        """Return escalations, newest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM escalation
            WHERE workspace = :workspace
            ORDER BY id DESC LIMIT :limit
            """,
            workspace=self._workspace,
            limit=limit,
        )
        return [Escalation(*row) for row in rows]

    def count_mails(self, recipient: str, since: int) -> tuple[int, int]:
        """Count the escalation mails to this recipient since `since`, and return the newest."""
        row = self._connection.fetch_one(
            """
            SELECT count(DISTINCT mail), coalesce(max(mail), 0) FROM escalation
            WHERE workspace = :workspace AND recipient = :recipient AND first_at >= :since
            """,
            workspace=self._workspace,
            recipient=recipient,
            since=since,
        )
        assert row is not None
        return int(row[0]), int(row[1])

    def set_mail(self, id: int, recipient: str, mail: int) -> None:
        """Record which mail reports the escalation."""
        self._connection.execute(
            """
            UPDATE escalation SET recipient = :recipient, mail = :mail
            WHERE workspace = :workspace AND id = :id
            """,
            workspace=self._workspace,
            id=id,
            recipient=recipient,
            mail=mail,
        )

    def find_first(self, mail: int) -> Escalation | None:
        """Return the first failure that a mail reports, or None."""
        row = self._connection.fetch_one(
            f"""
            SELECT {_COLUMNS} FROM escalation
            WHERE workspace = :workspace AND mail = :mail
            ORDER BY id LIMIT 1
            """,
            workspace=self._workspace,
            mail=mail,
        )
        return None if row is None else Escalation(*row)

    def summarize_mail(self, mail: int) -> tuple[int, int, int]:
        """Return the number of failures that a mail reports, the time of the last one, and the number of kinds."""
        row = self._connection.fetch_one(
            """
            SELECT coalesce(sum(count), 0), coalesce(max(last_at), 0), count(*)
            FROM escalation
            WHERE workspace = :workspace AND mail = :mail
            """,
            workspace=self._workspace,
            mail=mail,
        )
        assert row is not None
        return int(row[0]), int(row[1]), int(row[2])
