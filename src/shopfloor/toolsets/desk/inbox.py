"""The person's inbox: mail, questions and escalations in one list."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.ids import mail_number, spelled
from shopfloor.domain.mail import BODY_LIMIT, EXCERPT, Receipt
from shopfloor.domain.pages import listed, read_number_cursor, wanted
from shopfloor.domain.times import iso, iso_or_none
from shopfloor.errors import InvalidInput
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.manners import toolset
from shopfloor.usecases import escalations, mail, questions

MailId = Annotated[str, Field(description="Such as mail-12", max_length=64)]
IncludeDone = Annotated[bool, Field(description="Also what has been dealt with; default false")]
Body = Annotated[str, Field(description=f"1-{BODY_LIMIT} characters", min_length=1, max_length=BODY_LIMIT)]


@toolset.tool("inbox_list", read_only=True)
def inbox_list(work: Work, include_done: IncludeDone = False, limit: Limit = None, cursor: Cursor = None) -> Json:
    """List what waits for a person: unread mail, open questions, acknowledgements; newest first."""
    receipts = mail.page(work, "all" if include_done else "waiting", wanted(limit), read_number_cursor("mails", cursor))
    answer = listed("mails", receipts, limit, lambda one: spell_mail(work, one, EXCERPT), lambda one: one.mail.id)
    mail.shown(work, receipts[: answer["count"]])
    return {"count": answer["count"], "unreadCount": mail.unread(work), **answer}


@toolset.tool("inbox_read", idempotent=True)
def inbox_read(work: Work, mail_id: MailId) -> Json:
    """Read a mail whole and mark it as read."""
    return spell_mail(work, mail.read(work, mail_number(mail_id)), BODY_LIMIT)


@toolset.tool("inbox_reply")
def inbox_reply(work: Work, mail_id: MailId, body: Body) -> Json:
    """Reply to a mail; it goes to its sender, or to the agent that an alarm is about. To a question it is the answer."""
    number = mail_number(mail_id)
    if questions.is_open(work, number):
        reply = questions.answer(work, number, body).reply
    else:
        reply = mail.reply(work, number, body)
    return {"mailId": f"mail-{reply}", "timestamp": iso(work.now)}


@toolset.tool("inbox_answer")
def inbox_answer(work: Work, mail_id: MailId, answer: Body) -> Json:
    """Answer an agent's question; one of its options where it gives some."""
    question = questions.answer(work, mail_number(mail_id), answer)
    return {"mailId": mail_id, "answer": question.answer, "answeredAt": iso_or_none(question.answered_at)}


@toolset.tool("inbox_ack", idempotent=True)
def inbox_ack(work: Work, mail_id: MailId) -> Json:
    """Acknowledge a mail: it is seen to. A question wants an answer instead."""
    number = mail_number(mail_id)
    if questions.is_open(work, number):
        raise InvalidInput(f"{mail_id} asks a question", field="mailId", hint=f"Answer it: inbox answer {mail_id} TEXT")
    receipt = mail.acknowledge(work, number)
    return {"mailId": mail_id, "acknowledgedAt": iso_or_none(receipt.acted_at)}


def spell_mail(work: Work, receipt: Receipt, length: int) -> Json:
    """A mail as the inbox shows it, with so much of its body."""
    mail = receipt.mail
    body = mail.body + escalations.repeated(work, mail)
    question = work.mail.find_question(mail.id)
    answer: Json = {
        "id": f"mail-{mail.id}",
        "from": mail.sender.name,
        "fromType": mail.sender_type,
        "subject": mail.subject,
        "body": body[:length],
        "importance": mail.importance,
        "createdAt": iso(mail.created_at),
        "readAt": iso_or_none(receipt.read_at),
        "actedAt": iso_or_none(receipt.acted_at),
        "threadId": spelled("mail", mail.thread),
        "acknowledgeBefore": iso_or_none(mail.ack_by),
    }
    if len(body) > length:
        answer["bodyTruncated"] = True
    if question is not None:
        answer["question"] = {
            "state": question.state(work.now),
            "options": list(question.options),
            "answer": question.answer,
            "deadline": iso(question.deadline),
        }
    return answer
