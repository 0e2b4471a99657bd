"""The rest of the inbox: everything that waits in one list, questions of runs, passing on and muting."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.decisions import spell_reference
from shopfloor.domain.ids import mail_number
from shopfloor.domain.loops import Request
from shopfloor.domain.mail import BODY_LIMIT, EXCERPT, Receipt
from shopfloor.domain.pages import listed, read_number_cursor, wanted
from shopfloor.domain.times import HOUR, iso
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.inbox import Body, IncludeDone, MailId, spell_mail
from shopfloor.toolsets.desk.manners import toolset
from shopfloor.usecases import loops, mail, mailroom, overview

REQUESTS = 100
THREAD = 50

AgentId = Annotated[str, Field(description="The agent's name", min_length=1, max_length=64)]
Muted = Annotated[str, Field(description="As inbox_waiting names it under muted", min_length=1, max_length=100)]
RequestNumber = Annotated[int, Field(description="The request's number", ge=1)]


@toolset.tool("inbox_waiting", read_only=True)
def waiting(work: Work, include_done: IncludeDone = False, limit: Limit = None, cursor: Cursor = None) -> Json:
    """Everything that waits for a person: what runs ask, then mail, questions and alarms; newest first."""
    receipts = mail.page(work, "all" if include_done else "waiting", wanted(limit), read_number_cursor("mails", cursor))
    muted = work.mail.muted(work.now)
    answer = listed("mails", receipts, limit, lambda one: _item(work, one, EXCERPT, muted), lambda one: one.mail.id)
    mail.shown(work, receipts[: answer["count"]])
    hidden = [item for item in answer["mails"] if item["muted"]]
    shown = answer["mails"] if include_done else [item for item in answer["mails"] if not item["muted"]]
    return {
        **answer,
        "mails": shown,
        "count": len(shown),
        "hidden": len(hidden),
        "unreadCount": mail.unread(work),
        "requests": [_request(request) for request in work.run_talk.pending(REQUESTS)],
        "muted": [{"what": what, "until": iso(until)} for what, until in muted.items()],
    }


@toolset.tool("inbox_count", read_only=True)
def count(work: Work) -> Json:
    """How much waits for a person, up to 500."""
    waiting = overview.waiting(work)
    return {"waiting": waiting, "moreWaiting": waiting == overview.COUNTED}


@toolset.tool("inbox_show", read_only=True)
def show(work: Work, mail_id: MailId) -> Json:
    """One mail with its whole thread, without marking it as read."""
    receipt = mail.received(work, mail_number(mail_id))
    item = _item(work, receipt, BODY_LIMIT, work.mail.muted(work.now))
    item["thread"] = [
        {"id": f"mail-{each.id}", "from": each.sender.name, "fromType": each.sender_type, "subject": each.subject,
         "body": each.body, "createdAt": iso(each.created_at)}
        for each in work.mail.thread(receipt.mail.thread, THREAD)
    ]  # fmt: skip
    return item


@toolset.tool("inbox_decide")
def decide(work: Work, request: RequestNumber, answer: Body) -> Json:
    """Answer what a run asks: a permission by one of its options, anything else in words."""
    return _request(loops.answer(work, request, answer))


@toolset.tool("inbox_delegate")
def delegate(
    work: Work,
    mail_id: MailId,
    agent_id: AgentId,
    note: Annotated[str, Field(description="Put before it, at most 10000 characters", max_length=10_000)] = "",
) -> Json:
    """Pass a mail on to an agent, with a note; a question stays open until somebody answers it."""
    return {"mailId": f"mail-{mailroom.delegate(work, mail_number(mail_id), agent_id, note)}", "to": agent_id}


@toolset.tool("inbox_mute", idempotent=True)
def mute(
    work: Work,
    mail_id: MailId,
    sender: Annotated[
        bool, Field(description="Everything from its sender, not just its thread; default false")
    ] = False,
    hours: Annotated[int, Field(description="1-720, default 24", ge=1, le=720)] = 24,
) -> Json:
    """Keep a thread, or all mail of its sender, out of sight for a while; it stays stored."""
    what = mailroom.mute(work, mail_number(mail_id), sender, work.now + hours * HOUR)
    return {"muted": what, "until": iso(work.now + hours * HOUR)}


@toolset.tool("inbox_unmute", idempotent=True)
def unmute(work: Work, what: Muted) -> Json:
    """Let what was muted be seen again."""
    return {"unmuted": work.mail.unmute(what), "what": what}


@toolset.tool("inbox_write")
def write(
    work: Work,
    agent_id: AgentId,
    subject: Annotated[str, Field(description="1-200 characters", min_length=1, max_length=200)],
    body: Body,
) -> Json:
    """Write a mail to an agent."""
    recipients = mail.addressed(work, agent_id, False, None)
    return {"mailId": f"mail-{mail.send(work, recipients, subject, body)}", "to": agent_id}


def _item(work: Work, receipt: Receipt, length: int, muted: dict[str, int]) -> Json:
    item = spell_mail(work, receipt, length)
    item["muted"] = mailroom.muted(receipt.mail, muted)
    if (escalation := work.escalations.first_of(receipt.mail.id)) is not None:
        count, last_at, kinds = work.escalations.told_by(receipt.mail.id)
        item["escalation"] = {
            "agent": escalation.subject,
            "tool": escalation.tool,
            "code": escalation.code,
            "reference": spell_reference(escalation.reference),
            "count": count,
            "kinds": kinds,
            "lastAt": iso(last_at),
        }
    return item


def _request(request: Request) -> Json:
    return {
        "request": request.number,
        "run": request.run,
        "kind": request.kind,
        "question": request.question,
        "options": list(request.options),
        "answer": request.answer,
        "answeredBy": request.answered_by,
        "createdAt": iso(request.created_at),
    }
