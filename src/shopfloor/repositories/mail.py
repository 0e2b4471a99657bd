"""Mail, and what became of it at each recipient."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from shopfloor.domain.mail import EXCERPT, HUMAN, Mail, MailNotFound, Party, Question, Receipt
from shopfloor.errors import NotFound
from shopfloor.repositories.written import Change, unindexed
from shopfloor.store.database import Connection, Row

SLOTS = 16
"""Counters of unread mail per owner: as many as there are writers at once."""

_HEAD = "mail.id, mail.sender, mail.sender_type, mail.reply_to, mail.subject,"
_TAIL = "coalesce(mail.thread, mail.id), mail.in_reply_to, mail.importance, mail.ack_by, mail.created_at"
_WHOLE = f"{_HEAD} mail.body, {_TAIL}"
_SHORT = f"{_HEAD} substr(mail.body, 1, {EXCERPT + 1}), {_TAIL}"
_STATES = "receipt.recipient, receipt.delivered_at, receipt.read_at, receipt.acted_at"
_RECEIPTS = "receipt JOIN mail ON mail.workspace = receipt.workspace AND mail.id = receipt.mail"
_UNINDEXED = unindexed("mail", "CAST(mail.id AS TEXT)", "created_at")
Box = Literal["all", "unread", "waiting"]

_QUESTION = "mail, asker, options, deadline, answer, answered_by, answered_at, reply"


class Mails:
    """The mail of a workspace."""

    def __init__(self, connection: Connection, workspace: int) -> None:
        self._connection = connection
        self._workspace = workspace

    def add(
        self,
        *,
        sender: Party,
        sender_type: str,
        subject: str,
        body: str,
        now: int,
        reply_to: Party | None = None,
        thread: int | None = None,
        in_reply_to: int | None = None,
        importance: str = "normal",
        ack_by: int | None = None,
    ) -> int:
        """The number of the new mail, which has no recipients yet."""
        row = self._connection.one(
            "INSERT INTO mail (workspace, sender, sender_type, reply_to, subject, body, thread, in_reply_to,"
            " importance, ack_by, created_at) VALUES (:workspace, :sender, :sender_type, :reply_to, :subject, :body,"
            " :thread, :in_reply_to, :importance, :ack_by, :now) RETURNING id",
            workspace=self._workspace,
            sender=sender.key,
            sender_type=sender_type,
            reply_to=reply_to and reply_to.key,
            subject=subject,
            body=body,
            thread=thread,
            in_reply_to=in_reply_to,
            importance=importance,
            ack_by=ack_by,
            now=now,
        )
        assert row is not None
        return int(row[0])

    def address(self, mail: int, recipient: Party, *, wanted: bool, overdue_at: int | None) -> None:
        """Put the mail into an inbox."""
        self._connection.execute(
            "INSERT INTO receipt (workspace, recipient, mail, wanted, overdue_at)"
            " VALUES (:workspace, :recipient, :mail, :wanted, :overdue_at)",
            workspace=self._workspace,
            recipient=recipient.key,
            mail=mail,
            wanted=int(wanted),
            overdue_at=overdue_at,
        )
        self._count(recipient, mail, 1)

    def get(self, id: int) -> Mail:
        row = self._connection.one(
            f"SELECT {_WHOLE} FROM mail WHERE workspace = :workspace AND id = :id", workspace=self._workspace, id=id
        )
        if row is None:
            raise MailNotFound(mail=f"mail-{id}")
        return _mail(row)

    def receipt(self, id: int, recipient: Party) -> Receipt | None:
        """The mail as one recipient has it, whole; None when it is somebody else's."""
        row = self._connection.one(
            f"SELECT {_WHOLE}, {_STATES} FROM {_RECEIPTS} WHERE receipt.workspace = :workspace"
            " AND receipt.recipient = :recipient AND receipt.mail = :id",
            workspace=self._workspace,
            recipient=recipient.key,
            id=id,
        )
        return None if row is None else _receipt(row)

    def page(self, recipient: Party, box: Box, *, limit: int, before: int | None = None) -> list[Receipt]:
        """Mail of one inbox, newest first, with the beginnings of bodies; a box is all, unread or waiting."""
        rows = self._connection.all(
            "WITH page (mail) AS MATERIALIZED (SELECT mail FROM receipt WHERE workspace = :workspace"
            f" AND recipient = :recipient{' AND unread = 1' if box == 'unread' else ''}"
            f"{' AND waiting = 1' if box == 'waiting' else ''}"
            f"{'' if before is None else ' AND mail < :before'} ORDER BY mail DESC LIMIT :limit)"
            f" SELECT {_SHORT}, {_STATES} FROM page JOIN receipt ON receipt.workspace = :workspace"
            " AND receipt.recipient = :recipient AND receipt.mail = page.mail JOIN mail"
            " ON mail.workspace = :workspace AND mail.id = page.mail ORDER BY page.mail DESC",
            workspace=self._workspace,
            recipient=recipient.key,
            limit=limit,
            **({} if before is None else {"before": before}),
        )
        return [_receipt(row) for row in rows]

    def sent(self, sender: Party, *, limit: int, before: int | None = None) -> list[Mail]:
        """Mail from one sender, newest first, with the beginnings of bodies."""
        rows = self._connection.all(
            f"SELECT {_SHORT} FROM mail WHERE workspace = :workspace AND sender = :sender"
            f"{'' if before is None else ' AND id < :before'} ORDER BY id DESC LIMIT :limit",
            workspace=self._workspace,
            sender=sender.key,
            limit=limit,
            **({} if before is None else {"before": before}),
        )
        return [_mail(row) for row in rows]

    def receipts(self, mail: int, limit: int) -> list[tuple[Party, int | None, int | None, int | None]]:
        """Who got the mail, and when it was delivered, read and acted on."""
        rows = self._connection.all(
            f"SELECT {_STATES} FROM receipt WHERE workspace = :workspace AND mail = :mail"
            " ORDER BY recipient LIMIT :limit",
            workspace=self._workspace,
            mail=mail,
            limit=limit,
        )
        return [(Party(recipient), *times) for recipient, *times in rows]

    def thread(self, first: int, limit: int) -> list[Mail]:
        """The mails of a thread, oldest first."""
        rows = self._connection.all(
            f"SELECT {_WHOLE} FROM mail WHERE workspace = :workspace AND (id = :first OR thread = :first)"
            " ORDER BY id LIMIT :limit",
            workspace=self._workspace,
            first=first,
            limit=limit,
        )
        return [_mail(row) for row in rows]

    def unindexed(self, since: int, limit: int) -> list[Change]:
        """Mail since then that the index does not know, oldest first."""
        rows = self._connection.all(
            "SELECT created_at, CAST(id AS TEXT) FROM mail WHERE workspace = :workspace AND created_at >= :since"
            f" AND {_UNINDEXED} ORDER BY created_at, id LIMIT :limit",
            workspace=self._workspace,
            since=since,
            limit=limit,
        )
        return [(at, ref) for at, ref in rows]

    def some(self, ids: Sequence[int]) -> list[Mail]:
        """Those of these mails that exist, whole and whosever they are: for the index alone."""
        if not ids:
            return []
        rows = self._connection.all(
            f"SELECT {_WHOLE} FROM mail WHERE workspace = :workspace"
            f" AND id IN ({', '.join(str(int(id)) for id in ids)}) ORDER BY id",
            workspace=self._workspace,
        )
        return [_mail(row) for row in rows]

    def some_of(self, reader: str, ids: Sequence[int]) -> list[Mail]:
        """Those of these mails that the reader received or sent."""
        if not ids:
            return []
        rows = self._connection.all(
            f"SELECT {_WHOLE} FROM mail WHERE workspace = :workspace"
            f" AND id IN ({', '.join(str(int(id)) for id in ids)}) AND (sender = :reader OR EXISTS (SELECT 1"
            " FROM receipt WHERE receipt.workspace = mail.workspace AND receipt.recipient = :reader"
            " AND receipt.mail = mail.id)) ORDER BY id",
            workspace=self._workspace,
            reader=reader,
        )
        return [_mail(row) for row in rows]

    def mute(self, what: str, until: int) -> None:
        """Keep a thread or a sender out of sight until then."""
        self._connection.execute(
            "INSERT INTO mute (workspace, what, until) VALUES (:workspace, :what, :until)"
            " ON CONFLICT (workspace, what) DO UPDATE SET until = :until",
            workspace=self._workspace,
            what=what,
            until=until,
        )
        self._connection.hint("mail:human")

    def unmute(self, what: str) -> bool:
        """Let it be seen again; false when it was not muted."""
        gone = self._connection.execute(
            "DELETE FROM mute WHERE workspace = :workspace AND what = :what", workspace=self._workspace, what=what
        )
        self._connection.hint("mail:human")
        return gone == 1

    def muted(self, now: int) -> dict[str, int]:
        """What is out of sight, and until when."""
        rows = self._connection.all(
            "SELECT what, until FROM mute WHERE workspace = :workspace AND until > :now ORDER BY until LIMIT 1000",
            workspace=self._workspace,
            now=now,
        )
        return dict(rows)

    def unread(self, owner: Party) -> int:
        """How much of an inbox is unread."""
        row = self._connection.one(
            "SELECT coalesce(sum(unread), 0) FROM inbox WHERE workspace = :workspace AND owner = :owner",
            workspace=self._workspace,
            owner=owner.key,
        )
        assert row is not None
        return int(row[0])

    def count_waiting(self, owner: Party, now: int, limit: int) -> int:
        """How much waits in an inbox and is not muted; only so many of the newest are looked at."""
        row = self._connection.one(
            "SELECT count(*) FROM (SELECT mail FROM receipt WHERE workspace = :workspace AND recipient = :owner"
            " AND waiting = 1 ORDER BY mail DESC LIMIT :limit) AS newest WHERE NOT EXISTS (SELECT 1 FROM mute"
            " JOIN mail ON mail.workspace = mute.workspace AND mute.what IN (mail.sender, 'thread:' ||"
            " CAST(coalesce(mail.thread, mail.id) AS TEXT)) WHERE mute.workspace = :workspace AND mute.until > :now"
            " AND mail.id = newest.mail)",
            workspace=self._workspace,
            owner=owner.key,
            now=now,
            limit=limit,
        )
        assert row is not None
        return int(row[0])

    def newest_unread(self, owner: Party) -> Party | None:
        """Who wrote the newest unread mail."""
        row = self._connection.one(
            "SELECT sender FROM mail WHERE workspace = :workspace AND id = (SELECT mail FROM receipt"
            " WHERE workspace = :workspace AND recipient = :owner AND unread = 1 ORDER BY mail DESC LIMIT 1)",
            workspace=self._workspace,
            owner=owner.key,
        )
        return None if row is None else Party(row[0])

    def undelivered(self, owner: Party, limit: int) -> list[int]:
        """Mail that has not reached its recipient's context yet, newest first."""
        rows = self._connection.all(
            "SELECT mail FROM receipt WHERE workspace = :workspace AND recipient = :owner AND undelivered = 1"
            " ORDER BY mail DESC LIMIT :limit",
            workspace=self._workspace,
            owner=owner.key,
            limit=limit,
        )
        return [row[0] for row in rows]

    def to_show(self, owner: Party, since: int | None, limit: int) -> list[Mail]:
        """Whole mail that its recipient was not shown yet, or only from a moment on, oldest first."""
        rows = self._connection.all(
            f"SELECT {_WHOLE} FROM {_RECEIPTS} WHERE receipt.workspace = :workspace AND receipt.recipient = :owner"
            f" AND (receipt.undelivered = 1{'' if since is None else ' OR receipt.delivered_at >= :since'})"
            " ORDER BY receipt.mail LIMIT :limit",
            workspace=self._workspace,
            owner=owner.key,
            limit=limit,
            **({} if since is None else {"since": since}),
        )
        return [_mail(row) for row in rows]

    def deliver(self, owner: Party, mails: Sequence[int], now: int) -> None:
        """The recipient has seen that there is this mail."""
        for mail in mails:
            self._connection.execute(
                "UPDATE receipt SET delivered_at = :now, undelivered = 0 WHERE workspace = :workspace AND recipient = :owner"
                " AND mail = :mail AND undelivered = 1",
                workspace=self._workspace,
                owner=owner.key,
                mail=mail,
                now=now,
            )

    def read(self, owner: Party, mail: int, now: int) -> None:
        """The recipient has read it; the first time counts."""
        first = self._connection.execute(
            "UPDATE receipt SET read_at = :now, delivered_at = coalesce(delivered_at, :now), unread = 0, undelivered = 0,"
            " waiting = wanted"
            " WHERE workspace = :workspace AND recipient = :owner AND mail = :mail AND unread = 1",
            workspace=self._workspace,
            owner=owner.key,
            mail=mail,
            now=now,
        )
        if first:
            self._count(owner, mail, -1)
            self._stir(owner)

    def act(self, owner: Party, mail: int, now: int) -> None:
        """The recipient has acted on it: acknowledged it, or replied."""
        self._connection.execute(
            "UPDATE receipt SET acted_at = coalesce(acted_at, :now), overdue_at = NULL, waiting = 0"
            " WHERE workspace = :workspace AND recipient = :owner AND mail = :mail",
            workspace=self._workspace,
            owner=owner.key,
            mail=mail,
            now=now,
        )
        self._stir(owner)

    def _stir(self, owner: Party) -> None:
        """Pages that show the person's inbox look again; agents have nothing to wait for here."""
        if owner == HUMAN:
            self._connection.hint(f"mail:{HUMAN.key}")

    def overdue(self, now: int, limit: int) -> list[Receipt]:
        """Mail whose acknowledgement is overdue."""
        rows = self._connection.all(
            f"SELECT {_SHORT}, {_STATES} FROM {_RECEIPTS} WHERE receipt.workspace = :workspace"
            " AND receipt.overdue_at <= :now ORDER BY receipt.overdue_at LIMIT :limit",
            workspace=self._workspace,
            now=now,
            limit=limit,
        )
        return [_receipt(row) for row in rows]

    def escalated(self, owner: Party, mail: int) -> bool:
        """Note that somebody was told of the missing acknowledgement; false when that was noted before."""
        noted = self._connection.execute(
            "UPDATE receipt SET overdue_at = NULL WHERE workspace = :workspace AND recipient = :owner"
            " AND mail = :mail AND overdue_at IS NOT NULL",
            workspace=self._workspace,
            owner=owner.key,
            mail=mail,
        )
        return noted == 1

    def ask(self, mail: int, asker: Party, options: Sequence[str], deadline: int) -> None:
        """Make a question of a mail."""
        self._connection.execute(
            "INSERT INTO question (workspace, mail, asker, options, deadline)"
            " VALUES (:workspace, :mail, :asker, :options, :deadline)",
            workspace=self._workspace,
            mail=mail,
            asker=asker.key,
            options=json.dumps(list(options), ensure_ascii=False),
            deadline=deadline,
        )

    def question(self, mail: int) -> Question:
        row = self._connection.one(
            f"SELECT {_QUESTION} FROM question WHERE workspace = :workspace AND mail = :mail",
            workspace=self._workspace,
            mail=mail,
        )
        if row is None:
            raise NotFound(f"There is no question mail-{mail}", mail=f"mail-{mail}")
        number, asker, options, *rest = row
        return Question(number, Party(asker), tuple(json.loads(options)), *rest)

    def find_question(self, mail: int) -> Question | None:
        """The question that a mail asks, if it does."""
        try:
            return self.question(mail)
        except NotFound:
            return None

    def answer(self, mail: int, answer: str, by: str, reply: int, now: int) -> bool:
        """Answer a question; false when it has been answered before."""
        answered = self._connection.execute(
            "UPDATE question SET answer = :answer, answered_by = :by, answered_at = :now, reply = :reply"
            " WHERE workspace = :workspace AND mail = :mail AND answer IS NULL",
            workspace=self._workspace,
            mail=mail,
            answer=answer,
            by=by,
            reply=reply,
            now=now,
        )
        return answered == 1

    def _count(self, owner: Party, mail: int, by: int) -> None:
        self._connection.execute(
            "INSERT INTO inbox (workspace, owner, slot, unread) VALUES (:workspace, :owner, :slot, :by)"
            " ON CONFLICT (workspace, owner, slot) DO UPDATE SET unread = inbox.unread + :by",
            workspace=self._workspace,
            owner=owner.key,
            slot=mail % SLOTS,
            by=by,
        )


def _mail(row: Row) -> Mail:
    id, sender, sender_type, reply_to, subject, body, *rest = row
    return Mail(id, Party(sender), sender_type, None if reply_to is None else Party(reply_to), subject, body, *rest)


def _receipt(row: Row) -> Receipt:
    *mail, recipient, delivered_at, read_at, acted_at = row
    return Receipt(_mail(tuple(mail)), Party(recipient), delivered_at, read_at, acted_at)
