"""Tools for the inbox: mail, questions, approvals and alerts that a person has to deal with."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.decisions import format_reference
from shopfloor.domain.ids import format_id, parse_mail_id
from shopfloor.domain.mail import EXCERPT_CHARACTERS, MAX_BODY_CHARACTERS, SYSTEM, Question, Receipt
from shopfloor.domain.pagination import DEFAULT_PAGE_ROWS, fetch_size, parse_number_cursor, to_page
from shopfloor.domain.runs import Request
from shopfloor.domain.times import HOUR, format_iso, format_iso_or_none
from shopfloor.errors import InvalidInput
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.desk.boards import format_task
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.toolsets.desk.runs import format_run
from shopfloor.usecases import escalations, inbox, inbox_context, mail, overview, questions, run_answers

REQUEST_LIMIT = 100
THREAD_LIMIT = 50

MailId = Annotated[str, Field(description="Such as mail-12", max_length=64)]
AgentId = Annotated[str, Field(description="Name of the agent", min_length=1, max_length=64)]
Address = Annotated[
    str,
    Field(description="Name of an agent, run:NAME, role:TYPE, or everyone", min_length=1, max_length=80),
]
IncludeDone = Annotated[bool, Field(description="Include items that have been dealt with; default false")]
Unread = Annotated[bool, Field(description="Only mail that was not read; default false")]
Body = Annotated[
    str, Field(description=f"1-{MAX_BODY_CHARACTERS} characters", min_length=1, max_length=MAX_BODY_CHARACTERS)
]
Muted = Annotated[str, Field(description="As inbox_list names it under muted", min_length=1, max_length=100)]
RequestNumber = Annotated[int, Field(description="Number of the request", ge=1)]


@toolset.tool("inbox_list", read_only=True)
def list_inbox(
    uow: UnitOfWork,
    include_done: IncludeDone = False,
    unread: Unread = False,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Json:
    """List everything that waits for a person: requests from runs, then questions, then other mail, newest first.

    All open questions are on the first page, in addition to `limit`. With `includeDone`, mail is in chronological order,
    and the first page also has the latest requests that were answered.
    """
    receipts = mail.list_mail(
        uow,
        "unread" if unread else "all" if include_done else "waiting",
        fetch_size(limit),
        parse_number_cursor("mails", cursor),
    )
    asked = [] if include_done or unread else questions.list_open(uow, limit or DEFAULT_PAGE_ROWS)
    muted = uow.mail.list_muted(uow.now)
    found = uow.mail.find_questions([receipt.mail.id for receipt in [*receipts, *asked]])

    def format_receipt(receipt: Receipt) -> Json:
        return _format_item(uow, receipt, EXCERPT_CHARACTERS, muted, found.get(receipt.mail.id))

    first = to_page("mails", asked, limit, format_receipt, lambda one: one.mail.id)["mails"]
    response = to_page("mails", receipts, limit, format_receipt, lambda one: one.mail.id)
    mail.mark_shown(uow, [*asked[: len(first)], *receipts[: response["count"]]])
    asking = {item["id"] for item in first}
    rest = [item for item in response["mails"] if item["id"] not in asking]
    mails = first + rest if cursor is None else rest
    hidden = [item for item in mails if item["muted"]]
    answered = uow.run_requests.list_answered(REQUEST_LIMIT) if include_done and cursor is None else []
    visible = mails if include_done else [item for item in mails if not item["muted"]]
    return {
        **response,
        "mails": visible,
        "count": len(visible),
        "hidden": len(hidden),
        "unreadCount": mail.count_unread(uow),
        "requests": [_format_request(request) for request in uow.run_requests.list_pending(REQUEST_LIMIT)],
        "answered": [_format_request(request) for request in answered],
        "muted": [{"what": what, "until": format_iso(until)} for what, until in muted.items()],
    }


@toolset.tool("inbox_count", read_only=True)
def count_inbox(uow: UnitOfWork) -> Json:
    """Count the items that wait for a person, up to 500."""
    waiting = overview.count_waiting(uow)
    return {"waiting": waiting, "moreWaiting": waiting == overview.MAX_COUNT}


@toolset.tool("inbox_show", read_only=True)
def show_mail(uow: UnitOfWork, mail_id: MailId) -> Json:
    """Show one mail with its thread, without marking it as read."""
    receipt = mail.get_received(uow, parse_mail_id(mail_id))
    question = uow.mail.find_questions([receipt.mail.id]).get(receipt.mail.id)
    item = _format_item(uow, receipt, MAX_BODY_CHARACTERS, uow.mail.list_muted(uow.now), question)
    item["thread"] = [
        {"id": f"mail-{each.id}", "from": each.sender.name, "fromType": each.sender_type, "subject": each.subject,
         "body": each.body, "createdAt": format_iso(each.created_at)}
        for each in uow.mail.list_thread(receipt.mail.thread, THREAD_LIMIT)
    ]  # fmt: skip
    item["context"] = format_context(uow, inbox_context.find_mail_context(uow, receipt.mail))
    return item


@toolset.tool("inbox_request", read_only=True)
def show_request(uow: UnitOfWork, request: RequestNumber) -> Json:
    """Show one request from a run, answered or not, with the run and the tasks it works on."""
    found = uow.run_requests.get(request)
    context = inbox_context.find_run_context(uow, found.run)
    return {**_format_request(found), "context": format_context(uow, context)}


@toolset.tool("inbox_read", idempotent=True)
def read_mail(uow: UnitOfWork, mail_id: MailId) -> Json:
    """Read a complete mail and mark it as read."""
    receipt = mail.read_mail(uow, parse_mail_id(mail_id))
    question = uow.mail.find_questions([receipt.mail.id]).get(receipt.mail.id)
    return _format_mail(uow, receipt, MAX_BODY_CHARACTERS, question)


@toolset.tool("inbox_reply")
def reply_to_mail(uow: UnitOfWork, mail_id: MailId, body: Body) -> Json:
    """Reply to a mail: to its sender, or to the agent that an alert is about. A reply to a question answers it."""
    reply = inbox.reply_to_mail(uow, parse_mail_id(mail_id), body)
    return {"mailId": f"mail-{reply}", "timestamp": format_iso(uow.now)}


@toolset.tool("inbox_answer")
def answer_question(uow: UnitOfWork, mail_id: MailId, answer: Body) -> Json:
    """Answer an agent's question, with one of its options or in your own words."""
    question = questions.answer_question(uow, parse_mail_id(mail_id), answer)
    return {
        "mailId": mail_id,
        "answer": question.answer,
        "options": list(question.options),
        "answeredAt": format_iso_or_none(question.answered_at),
    }


@toolset.tool("inbox_ack", idempotent=True)
def acknowledge_mail(uow: UnitOfWork, mail_id: MailId) -> Json:
    """Acknowledge a mail as dealt with. A question must be answered instead."""
    number = parse_mail_id(mail_id)
    if questions.is_open(uow, number):
        raise InvalidInput(f"{mail_id} asks a question", field="mailId", hint="Answer it with inbox_answer")
    receipt = mail.acknowledge_mail(uow, number)
    return {"mailId": mail_id, "acknowledgedAt": format_iso_or_none(receipt.acted_at)}


@toolset.tool("inbox_reopen", idempotent=True)
def reopen_mail(uow: UnitOfWork, mail_id: MailId) -> Json:
    """Put an acknowledged mail back into the inbox, as if it had not been acknowledged."""
    receipt = mail.reopen_mail(uow, parse_mail_id(mail_id))
    return {"mailId": mail_id, "acknowledgedAt": format_iso_or_none(receipt.acted_at)}


@toolset.tool("inbox_decide", approval=True)
def answer_request(uow: UnitOfWork, request: RequestNumber, answer: Body) -> Json:
    """Answer a run's request: a permission with one of its options, anything else in your own words."""
    return _format_request(run_answers.answer_request(uow, request, answer))


@toolset.tool("inbox_delegate")
def delegate_mail(
    uow: UnitOfWork,
    mail_id: MailId,
    agent_id: AgentId,
    note: Annotated[str, Field(description="Put before the mail, at most 10000 characters", max_length=10_000)] = "",
) -> Json:
    """Forward a mail to an agent, with a note. A question stays open until it is answered."""
    return {"mailId": f"mail-{inbox.forward_mail(uow, parse_mail_id(mail_id), agent_id, note)}", "to": agent_id}


@toolset.tool("inbox_mute", idempotent=True)
def mute_mail(
    uow: UnitOfWork,
    mail_id: MailId,
    sender: Annotated[bool, Field(description="Mute all mail from its sender, not only its thread")] = False,
    hours: Annotated[int, Field(description="1-720, default 24", ge=1, le=720)] = 24,
) -> Json:
    """Hide a thread, or all mail of its sender, for a while. Hidden mail stays stored."""
    what = inbox.mute_mail(uow, parse_mail_id(mail_id), sender, uow.now + hours * HOUR)
    return {"muted": what, "until": format_iso(uow.now + hours * HOUR)}


@toolset.tool("inbox_unmute", idempotent=True)
def unmute_mail(uow: UnitOfWork, what: Muted) -> Json:
    """Show muted mail again."""
    return {"unmuted": inbox.unmute_mail(uow, what), "what": what}


@toolset.tool("inbox_write")
def write_mail(
    uow: UnitOfWork,
    agent_id: Address,
    subject: Annotated[str, Field(description="1-200 characters", min_length=1, max_length=200)],
    body: Body,
) -> Json:
    """Write a mail to an agent, a run, all agents of a role, or everyone."""
    recipients = mail.resolve_recipients(uow, None, False, [agent_id])
    return {"mailId": f"mail-{mail.send_mail(uow, recipients, subject, body)}", "to": agent_id}


def _format_item(
    uow: UnitOfWork, receipt: Receipt, length: int, muted: dict[str, int], question: Question | None
) -> Json:
    item = _format_mail(uow, receipt, length, question)
    item["muted"] = inbox.is_muted(receipt.mail, muted)
    # Only the server itself reports escalations, so other mail costs no query here.
    from_system = receipt.mail.sender == SYSTEM
    if from_system and (escalation := uow.escalations.find_first(receipt.mail.id)) is not None:
        count, last_at, kinds = uow.escalations.summarize_mail(receipt.mail.id)
        item["escalation"] = {
            "agent": escalation.subject,
            "tool": escalation.tool,
            "code": escalation.code,
            "reference": format_reference(escalation.reference),
            "count": count,
            "kinds": kinds,
            "lastAt": format_iso(last_at),
        }
    return item


def _format_mail(uow: UnitOfWork, receipt: Receipt, length: int, question: Question | None) -> Json:
    """Return a mail with up to `length` characters of its body."""
    mail = receipt.mail
    # A reply to an alert goes to the agent that it is about. Nothing reads a reply to the server.
    reply_to = mail.reply_to or mail.sender
    body = mail.body + escalations.describe_repeats(uow, mail)
    response: Json = {
        "id": f"mail-{mail.id}",
        "from": mail.sender.name,
        "fromType": mail.sender_type,
        "replyTo": None if reply_to == SYSTEM else reply_to.name,
        "subject": mail.subject,
        "body": body[:length],
        "importance": mail.importance,
        "createdAt": format_iso(mail.created_at),
        "readAt": format_iso_or_none(receipt.read_at),
        "actedAt": format_iso_or_none(receipt.acted_at),
        "threadId": format_id("mail", mail.thread),
        "acknowledgeBefore": format_iso_or_none(mail.ack_by),
    }
    if len(body) > length:
        response["bodyTruncated"] = True
    if question is not None:
        response["question"] = {
            "state": question.state(uow.now),
            "options": list(question.options),
            "answer": question.answer,
            "answeredBy": None if question.answered_by is None else question.answered_by.partition(":")[2],
            "answeredIn": question.answered_in,
            "answeredAt": format_iso_or_none(question.answered_at),
            "deadline": format_iso(question.deadline),
        }
    return response


def _format_request(request: Request) -> Json:
    return {
        "request": request.number,
        "run": request.run,
        "kind": request.kind,
        "question": request.question,
        "options": list(request.options),
        "answer": request.answer,
        "answeredBy": None if request.answered_by is None else request.answered_by.partition(":")[2],
        "answeredAt": format_iso_or_none(request.answered_at),
        "createdAt": format_iso(request.created_at),
    }


def format_context(uow: UnitOfWork, context: inbox_context.ItemContext) -> Json:
    """Return the run and the tasks that an inbox item is about."""
    return {
        "run": None if context.run is None else format_run(uow, context.run),
        "tasks": [
            {
                **format_task(about.task),
                "branchName": about.task.branch_name,
                "prUrl": about.task.pr_url,
                "boardTitle": about.board_title,
                "comments": [
                    {"author": comment.author, "body": comment.body, "createdAt": format_iso(comment.created_at)}
                    for comment in about.comments
                ],
            }
            for about in context.tasks
        ],
    }
