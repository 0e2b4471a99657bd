"""Mail, and its state for each recipient."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from shopfloor.domain.mail import EXCERPT_CHARACTERS, HUMAN, Mail, MailNotFound, Participant, Question, Receipt
from shopfloor.errors import NotFound
from shopfloor.repositories.index_marks import mark_changed
from shopfloor.repositories.repository import Repository
from shopfloor.store.protocol import MAX_ID, Row

_HEAD = "mail.id, mail.sender, mail.sender_type, mail.reply_to, mail.subject,"
_TAIL = "coalesce(mail.thread, mail.id), mail.in_reply_to, mail.importance, mail.ack_by, mail.created_at"
_WHOLE = f"{_HEAD} mail.body, {_TAIL}"
_SHORT = f"{_HEAD} substr(mail.body, 1, {EXCERPT_CHARACTERS + 1}), {_TAIL}"
_STATES = "receipt.recipient, receipt.delivered_at, receipt.read_at, receipt.acted_at"
_RECEIPTS = "receipt JOIN mail ON mail.workspace = receipt.workspace AND mail.id = receipt.mail"
InboxFilter = Literal["all", "unread", "waiting"]
# Constants, not parameters: only then does the planner choose the partial index of unread or waiting mail.
_INBOX_FILTERS: dict[InboxFilter, str] = {"all": "", "unread": "AND unread = 1", "waiting": "AND waiting = 1"}

_MARKED_AT_ONCE = (1, 10, 100)

_QUESTION = "mail, asker, options, deadline, answer, answered_by, answered_at, reply"


class Mails(Repository):
    """The mail of a workspace."""

    def list_expired(self, after: int, before: int, limit: int) -> tuple[list[int], list[dict[str, Any]]]:
        """Return the ids of old mails above `after`, and the full rows of those that every recipient has dealt with."""
        rows = self._connection.fetch_all(
            f"""
            SELECT id, sender, subject, body, coalesce(thread, id), in_reply_to, created_at, NOT EXISTS (
                SELECT 1 FROM {self._receipts_by_mail()}
                WHERE receipt.workspace = mail.workspace AND receipt.mail = mail.id
                  AND (receipt.unread = 1 OR receipt.waiting = 1)
            )
            FROM mail {self._connection.by_row_id}
            WHERE workspace = :workspace AND id > :after
            ORDER BY id LIMIT :limit
            """,
            workspace=self._workspace,
            after=after,
            limit=limit,
        )
        names = ("id", "sender", "subject", "body", "thread", "in_reply_to", "created_at")
        old = [row for row in rows if row[6] < before]
        expired = {row[0]: dict(zip(names, row[:7], strict=True)) | {"receipts": []} for row in old if row[7]}
        for mail, *states in self._connection.fetch_all(
            f"""
            SELECT mail, recipient, delivered_at, read_at, acted_at FROM {self._receipts_by_mail()}
            WHERE workspace = :workspace AND mail IN ({", ".join(str(int(id)) for id in [0, *expired])})
            ORDER BY mail, recipient
            """,
            workspace=self._workspace,
        ):
            expired[mail]["receipts"].append(states)
        return [row[0] for row in old], list(expired.values())

    def _receipts_by_mail(self) -> str:
        # Without statistics SQLite considers the workspace selective, and reads all receipts for one mail.
        return "receipt INDEXED BY receipt_mail" if self._connection.engine == "sqlite" else "receipt"

    def purge(self, mails: Sequence[int]) -> None:
        """Delete mails with their receipts and questions, and remove them from the index."""
        for mail in mails:
            for statement in (
                f"DELETE FROM {self._receipts_by_mail()} WHERE workspace = :workspace AND mail = :mail",
                "DELETE FROM question WHERE workspace = :workspace AND mail = :mail",
                "DELETE FROM mail WHERE workspace = :workspace AND id = :mail",
            ):
                self._connection.execute(statement, workspace=self._workspace, mail=mail)
            mark_changed(self._connection, self._workspace, "mail", mail)

    def add(
        self,
        *,
        sender: Participant,
        sender_type: str,
        subject: str,
        body: str,
        now: int,
        reply_to: Participant | None = None,
        thread: int | None = None,
        in_reply_to: int | None = None,
        importance: str = "normal",
        ack_by: int | None = None,
    ) -> int:
        """Add a mail without recipients and return its number."""
        row = self._connection.fetch_one(
            """
            INSERT INTO mail (workspace, sender, sender_type, reply_to, subject, body, thread, in_reply_to,
                importance, ack_by, created_at)
            VALUES (:workspace, :sender, :sender_type, :reply_to, :subject, :body, :thread, :in_reply_to,
                :importance, :ack_by, :now)
            RETURNING id
            """,
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
        mark_changed(self._connection, self._workspace, "mail", row[0])
        return int(row[0])

    def add_recipient(self, mail: int, recipient: Participant, *, wanted: bool, overdue_at: int | None) -> None:
        """Put the mail into a recipient's inbox."""
        self._connection.send(
            """
            INSERT INTO receipt (workspace, recipient, mail, wanted, overdue_at)
            VALUES (:workspace, :recipient, :mail, :wanted, :overdue_at)
            """,
            workspace=self._workspace,
            recipient=recipient.key,
            mail=mail,
            wanted=int(wanted),
            overdue_at=overdue_at,
        )
        self._count(recipient, 1)

    def get(self, id: int) -> Mail:
        row = self._connection.fetch_one(
            f"""
            SELECT {_WHOLE} FROM mail
            WHERE workspace = :workspace AND id = :id
            """,
            workspace=self._workspace,
            id=id,
        )
        if row is None:
            raise MailNotFound(mail=f"mail-{id}")
        return _mail(row)

    def find_receipt(self, id: int, recipient: Participant) -> Receipt | None:
        """Return a mail in full, as one recipient has it, or None if it is not theirs."""
        row = self._connection.fetch_one(
            f"""
            SELECT {_WHOLE}, {_STATES} FROM {_RECEIPTS}
            WHERE receipt.workspace = :workspace AND receipt.recipient = :recipient AND receipt.mail = :id
            """,
            workspace=self._workspace,
            recipient=recipient.key,
            id=id,
        )
        return None if row is None else _receipt(row)

    def list_inbox(
        self, recipient: Participant, box: InboxFilter, *, limit: int, before: int | None = None
    ) -> list[Receipt]:
        """Return mail of one inbox, newest first, with excerpts of bodies."""
        rows = self._connection.fetch_all(
            f"""
            WITH page (mail) AS MATERIALIZED (SELECT mail FROM receipt WHERE workspace = :workspace
                AND recipient = :recipient {_INBOX_FILTERS[box]} AND mail < :before
                ORDER BY mail DESC LIMIT :limit)
            SELECT {_SHORT}, {_STATES} FROM page
            JOIN receipt ON receipt.workspace = :workspace AND receipt.recipient = :recipient
                AND receipt.mail = page.mail
            JOIN mail ON mail.workspace = :workspace AND mail.id = page.mail
            ORDER BY page.mail DESC
            """,
            workspace=self._workspace,
            recipient=recipient.key,
            limit=limit,
            before=MAX_ID if before is None else before,
        )
        return [_receipt(row) for row in rows]

    def list_open_questions(self, recipient: Participant, now: int, *, among: int, limit: int) -> list[Receipt]:
        """Return the questions that can still be answered among the newest waiting mail of one inbox, newest first."""
        rows = self._connection.fetch_all(
            f"""
            WITH newest (mail) AS MATERIALIZED (SELECT mail FROM receipt WHERE workspace = :workspace
                AND recipient = :recipient AND waiting = 1 ORDER BY mail DESC LIMIT :among)
            SELECT {_SHORT}, {_STATES} FROM newest
            JOIN question ON question.workspace = :workspace AND question.mail = newest.mail
                AND question.answer IS NULL AND question.deadline > :now
            JOIN receipt ON receipt.workspace = :workspace AND receipt.recipient = :recipient
                AND receipt.mail = newest.mail
            JOIN mail ON mail.workspace = :workspace AND mail.id = newest.mail
            ORDER BY newest.mail DESC LIMIT :limit
            """,
            workspace=self._workspace,
            recipient=recipient.key,
            now=now,
            among=among,
            limit=limit,
        )
        return [_receipt(row) for row in rows]

    def list_sent(self, sender: Participant, *, limit: int, before: int | None = None) -> list[Mail]:
        """Return mail from one sender, newest first, with excerpts of bodies."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_SHORT} FROM mail
            WHERE workspace = :workspace AND sender = :sender AND id < :before
            ORDER BY id DESC LIMIT :limit
            """,
            workspace=self._workspace,
            sender=sender.key,
            limit=limit,
            before=MAX_ID if before is None else before,
        )
        return [_mail(row) for row in rows]

    def find_newest_sent(self, senders: Sequence[Participant]) -> dict[str, Mail]:
        """Return the newest mail from each of these senders, by the key of the sender."""
        if not senders:
            return {}
        # Materialized, in steps of 50 and with a range, as in `Decisions.find_newest`: at 100,000 mails from one of five
        # agents, PostgreSQL read 4,950,000 rows for the overview.
        padded = [*senders, *[senders[-1]] * (-len(senders) % 50)]
        wanted = {f"sender{number}": sender.key for number, sender in enumerate(padded)}
        rows = self._connection.fetch_all(
            f"""
            WITH wanted (sender) AS (VALUES {", ".join(f"(:{name})" for name in wanted)}),
            newest (id) AS MATERIALIZED (
                SELECT (SELECT id FROM mail WHERE workspace = :workspace
                    AND sender >= wanted.sender AND sender <= wanted.sender
                    ORDER BY sender DESC, id DESC LIMIT 1) FROM wanted
            )
            SELECT {_SHORT} FROM mail {self._connection.by_row_id}
            WHERE workspace = :workspace AND id IN (SELECT id FROM newest)
            """,
            workspace=self._workspace,
            **wanted,
        )
        mails = [_mail(row) for row in rows]
        return {mail.sender.key: mail for mail in mails}

    def list_receipts(self, mail: int, limit: int) -> list[tuple[Participant, int | None, int | None, int | None]]:
        """Return the recipients of a mail, and when each received, read and acted on it."""
        # Named, because without statistics SQLite scans the whole primary key, which is ordered by recipient: 1.2 s for
        # one page of sent mail at 150,000 receipts.
        source = "receipt INDEXED BY receipt_mail" if self._connection.engine == "sqlite" else "receipt"
        rows = self._connection.fetch_all(
            f"""
            SELECT {_STATES} FROM {source}
            WHERE workspace = :workspace AND mail = :mail
            ORDER BY recipient LIMIT :limit
            """,
            workspace=self._workspace,
            mail=mail,
            limit=limit,
        )
        return [(Participant(recipient), *times) for recipient, *times in rows]

    def list_thread(self, first: int, limit: int) -> list[Mail]:
        """Return the mails of a thread, oldest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_WHOLE} FROM mail WHERE workspace = :workspace AND id = :first
            UNION ALL
            SELECT {_WHOLE} FROM mail WHERE workspace = :workspace AND thread = :first AND id <> :first
            ORDER BY 1 LIMIT :limit
            """,
            workspace=self._workspace,
            first=first,
            limit=limit,
        )
        return [_mail(row) for row in rows]

    def find_many(self, ids: Sequence[int]) -> list[Mail]:
        """Return the mails with these ids that exist, regardless of their owner: for the index only."""
        if not ids:
            return []
        rows = self._connection.fetch_all(
            f"""
            SELECT {_WHOLE} FROM mail {self._connection.by_row_id}
            WHERE workspace = :workspace AND id IN ({", ".join(str(int(id)) for id in ids)})
            ORDER BY id
            """,
            workspace=self._workspace,
        )
        return [_mail(row) for row in rows]

    def find_visible(self, reader: str, ids: Sequence[int]) -> list[Mail]:
        """Return the mails with these ids that the reader received or sent."""
        if not ids:
            return []
        rows = self._connection.fetch_all(
            f"""
            SELECT {_WHOLE} FROM mail {self._connection.by_row_id}
            WHERE workspace = :workspace
              AND id IN ({", ".join(str(int(id)) for id in ids)})
              AND (sender = :reader OR EXISTS (SELECT 1 FROM receipt
                WHERE receipt.workspace = mail.workspace AND receipt.recipient = :reader
                AND receipt.mail = mail.id))
            ORDER BY id
            """,
            workspace=self._workspace,
            reader=reader,
        )
        return [_mail(row) for row in rows]

    def mute(self, what: str, until: int) -> None:
        """Mute a thread or a sender until `until`."""
        self._connection.execute(
            """
            INSERT INTO mute (workspace, what, until)
            VALUES (:workspace, :what, :until)
            ON CONFLICT (workspace, what) DO UPDATE SET until = :until
            """,
            workspace=self._workspace,
            what=what,
            until=until,
        )
        self._connection.notify_on_commit("mail:human")

    def unmute(self, what: str) -> bool:
        """Unmute a thread or a sender. Return False if it was not muted."""
        gone = self._connection.execute(
            "DELETE FROM mute WHERE workspace = :workspace AND what = :what", workspace=self._workspace, what=what
        )
        self._connection.notify_on_commit("mail:human")
        return gone == 1

    def list_muted(self, now: int) -> dict[str, int]:
        """Return what is muted, and until when."""
        rows = self._connection.fetch_all(
            """
            SELECT what, until FROM mute
            WHERE workspace = :workspace AND until > :now
            ORDER BY until LIMIT 1000
            """,
            workspace=self._workspace,
            now=now,
        )
        return dict(rows)

    def count_unread(self, owner: Participant) -> int:
        """Count the unread mail of an inbox."""
        row = self._connection.fetch_one(
            """
            SELECT coalesce(sum(unread), 0) FROM inbox
            WHERE workspace = :workspace AND owner = :owner
            """,
            workspace=self._workspace,
            owner=owner.key,
        )
        assert row is not None
        return int(row[0])

    def count_waiting(self, owner: Participant, now: int, limit: int) -> int:
        """Count the mail that waits in an inbox and is not muted, among the newest `limit`."""
        row = self._connection.fetch_one(
            """
            SELECT count(*) FROM (SELECT mail FROM receipt WHERE workspace = :workspace
                AND recipient = :owner AND waiting = 1 ORDER BY mail DESC LIMIT :limit) AS newest
            WHERE NOT EXISTS (SELECT 1 FROM mute JOIN mail ON mail.workspace = mute.workspace
                AND mute.what IN (mail.sender, 'thread:' || CAST(coalesce(mail.thread, mail.id) AS TEXT))
                WHERE mute.workspace = :workspace AND mute.until > :now AND mail.id = newest.mail)
            """,
            workspace=self._workspace,
            owner=owner.key,
            now=now,
            limit=limit,
        )
        assert row is not None
        return int(row[0])

    def find_newest_unread_sender(self, owner: Participant) -> Participant | None:
        """Return the sender of the newest unread mail, or None."""
        row = self._connection.fetch_one(
            """
            SELECT sender FROM mail
            WHERE workspace = :workspace
              AND id = (SELECT mail FROM receipt WHERE workspace = :workspace AND recipient = :owner
                AND unread = 1 ORDER BY mail DESC LIMIT 1)
            """,
            workspace=self._workspace,
            owner=owner.key,
        )
        return None if row is None else Participant(row[0])

    def list_undelivered(self, owner: Participant, limit: int) -> list[int]:
        """Return mail that has not reached its recipient's context, newest first."""
        rows = self._connection.fetch_all(
            """
            SELECT mail FROM receipt
            WHERE workspace = :workspace AND recipient = :owner AND undelivered = 1
            ORDER BY mail DESC LIMIT :limit
            """,
            workspace=self._workspace,
            owner=owner.key,
            limit=limit,
        )
        return [row[0] for row in rows]

    def list_undelivered_mail(self, owner: Participant, since: int | None, limit: int) -> list[Mail]:
        """Return the full mails that are undelivered, or were delivered since `since`, oldest first."""
        # No mail is in both. UNION made SQLite read every receipt of the recipient, which are in the order that merging
        # needs. The inner ORDER BY makes it use the index by delivery, also with statistics of a small table.
        rows = self._connection.fetch_all(
            f"""
            WITH wanted (mail) AS MATERIALIZED (
                SELECT mail FROM receipt
                WHERE workspace = :workspace AND recipient = :owner AND undelivered = 1
                UNION ALL
                SELECT mail FROM (
                    SELECT mail FROM receipt
                    WHERE workspace = :workspace AND recipient = :owner AND undelivered = 0 AND delivered_at >= :since
                    ORDER BY delivered_at LIMIT :limit
                ) AS delivered
            )
            SELECT {_WHOLE} FROM wanted
            JOIN mail ON mail.workspace = :workspace AND mail.id = wanted.mail
            ORDER BY wanted.mail LIMIT :limit
            """,
            workspace=self._workspace,
            owner=owner.key,
            limit=limit,
            since=MAX_ID if since is None else since,
        )
        return [_mail(row) for row in rows]

    def mark_delivered(self, owner: Participant, mails: Sequence[int], now: int) -> None:
        """Record that the mail reached the recipient's context."""
        if not mails:
            return
        # Few sizes, so that PostgreSQL prepares few statements. One statement per mail took a tenth of a `mail send` to
        # an agent that also sends.
        size = next((size for size in _MARKED_AT_ONCE if size >= len(mails)), len(mails))
        marked = {f"mail{number}": mail for number, mail in enumerate([*mails, *[mails[-1]] * (size - len(mails))])}
        self._connection.send(
            f"""
            UPDATE receipt SET delivered_at = :now, undelivered = 0
            WHERE workspace = :workspace AND recipient = :owner AND undelivered = 1
              AND mail IN ({", ".join(f":{name}" for name in marked)})
            """,
            workspace=self._workspace,
            owner=owner.key,
            now=now,
            **marked,
        )

    def mark_read(self, owner: Participant, mail: int, now: int) -> None:
        """Record when the recipient first read it. A person's mail waits until it is dealt with."""
        first = self._connection.execute(
            """
            UPDATE receipt SET read_at = :now, delivered_at = coalesce(delivered_at, :now), unread = 0,
                undelivered = 0, waiting = CASE WHEN recipient = :human THEN waiting ELSE wanted END
            WHERE workspace = :workspace AND recipient = :owner AND mail = :mail AND unread = 1
            """,
            workspace=self._workspace,
            owner=owner.key,
            human=HUMAN.key,
            mail=mail,
            now=now,
        )
        if first:
            self._count(owner, -1)
            self._notify_inbox(owner)

    def mark_acted(self, owner: Participant, mail: int, now: int) -> None:
        """Record that the recipient has acknowledged it or replied."""
        self._connection.execute(
            """
            UPDATE receipt SET acted_at = coalesce(acted_at, :now), overdue_at = NULL, waiting = 0
            WHERE workspace = :workspace AND recipient = :owner AND mail = :mail
            """,
            workspace=self._workspace,
            owner=owner.key,
            mail=mail,
            now=now,
        )
        self._notify_inbox(owner)

    def mark_open(self, owner: Participant, mail: int) -> bool:
        """Put a mail that was acted on back into the inbox; return False if it was not acted on."""
        changed = self._connection.execute(
            """
            UPDATE receipt SET acted_at = NULL, waiting = 1
            WHERE workspace = :workspace AND recipient = :owner AND mail = :mail AND acted_at IS NOT NULL
            """,
            workspace=self._workspace,
            owner=owner.key,
            mail=mail,
        )
        if changed:
            self._notify_inbox(owner)
        return changed == 1

    def _notify_inbox(self, owner: Participant) -> None:
        """Notify the pages that show the operator's inbox; agents do not wait for this."""
        if owner == HUMAN:
            self._connection.notify_on_commit(f"mail:{HUMAN.key}")

    def list_overdue(self, now: int, limit: int) -> list[Receipt]:
        """Return mail whose acknowledgement is overdue."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_SHORT}, {_STATES} FROM {_RECEIPTS}
            WHERE receipt.workspace = :workspace AND receipt.overdue_at <= :now
            ORDER BY receipt.overdue_at LIMIT :limit
            """,
            workspace=self._workspace,
            now=now,
            limit=limit,
        )
        return [_receipt(row) for row in rows]

    def mark_escalated(self, owner: Participant, mail: int) -> bool:
        """Record that the missing acknowledgement was escalated. Return False if it already was."""
        noted = self._connection.execute(
            """
            UPDATE receipt SET overdue_at = NULL
            WHERE workspace = :workspace AND recipient = :owner AND mail = :mail AND overdue_at IS NOT NULL
            """,
            workspace=self._workspace,
            owner=owner.key,
            mail=mail,
        )
        return noted == 1

    def add_question(self, mail: int, asker: Participant, options: Sequence[str], deadline: int) -> None:
        """Turn a mail into a question."""
        self._connection.execute(
            """
            INSERT INTO question (workspace, mail, asker, options, deadline)
            VALUES (:workspace, :mail, :asker, :options, :deadline)
            """,
            workspace=self._workspace,
            mail=mail,
            asker=asker.key,
            options=json.dumps(list(options), ensure_ascii=False),
            deadline=deadline,
        )

    def get_question(self, mail: int) -> Question:
        question = self.find_questions([mail]).get(mail)
        if question is None:
            raise NotFound(f"Question mail-{mail} not found", mail=f"mail-{mail}")
        return question

    def find_questions(self, mails: Sequence[int]) -> dict[int, Question]:
        """Return the questions that these mails ask, by mail."""
        if not mails:
            return {}
        # The ids become part of the statement, so only integers may.
        rows = self._connection.fetch_all(
            f"""
            SELECT {_QUESTION} FROM question
            WHERE workspace = :workspace AND mail IN ({", ".join(str(int(id)) for id in mails)})
            """,
            workspace=self._workspace,
        )
        return {
            mail: Question(mail, Participant(asker), tuple(json.loads(options)), *rest)
            for mail, asker, options, *rest in rows
        }

    def record_answer(self, mail: int, answer: str, by: str, reply: int, now: int) -> bool:
        """Answer a question. Return False if it is already answered."""
        answered = self._connection.execute(
            """
            UPDATE question SET answer = :answer, answered_by = :by, answered_at = :now, reply = :reply
            WHERE workspace = :workspace AND mail = :mail AND answer IS NULL
            """,
            workspace=self._workspace,
            mail=mail,
            answer=answer,
            by=by,
            reply=reply,
            now=now,
        )
        return answered == 1

    def _count(self, owner: Participant, by: int) -> None:
        # One row per concurrent writer: with a single row, every mail to a busy inbox would abort another.
        self._connection.send(
            """
            INSERT INTO inbox (workspace, owner, slot, unread)
            VALUES (:workspace, :owner, :slot, :by)
            ON CONFLICT (workspace, owner, slot) DO UPDATE SET unread = inbox.unread + :by
            """,
            workspace=self._workspace,
            owner=owner.key,
            slot=self._connection.counter_slot,
            by=by,
        )


def _mail(row: Row) -> Mail:
    id, sender, sender_type, reply_to, subject, body, *rest = row
    return Mail(
        id, Participant(sender), sender_type, None if reply_to is None else Participant(reply_to), subject, body, *rest
    )


def _receipt(row: Row) -> Receipt:
    *mail, recipient, delivered_at, read_at, acted_at = row
    return Receipt(_mail(tuple(mail)), Participant(recipient), delivered_at, read_at, acted_at)
