"""The inbox of a person: reply to mail, forward it, and mute threads or senders."""

from __future__ import annotations

from shopfloor.domain.mail import MAX_BODY_CHARACTERS, MAX_SUBJECT_CHARACTERS, SYSTEM, Mail, agent_participant
from shopfloor.errors import InvalidInput
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import crews, mail, questions

_FORWARD = "Fwd: "


def reply_to_mail(uow: UnitOfWork, number: int, body: str) -> int:
    """Reply to a mail and return the reply's number. A reply to an open question answers it.

    If a crew's agent sent plain mail and blocked its task, the reply lets it continue, like an answer.
    """
    if questions.is_open(uow, number):
        reply = questions.answer_question(uow, number, body).reply
        assert reply is not None
        return reply
    reply = mail.reply_to_mail(uow, number, body)
    original = mail.get_received(uow, number).mail
    to = original.reply_to or original.sender
    if to.agent is not None:
        crews.continue_answered_tasks(uow, to.agent, original.subject, body)
    return reply


def forward_mail(uow: UnitOfWork, number: int, agent: str, note: str) -> int:
    """Forward a mail to an agent and return the new mail's number.

    The original is acknowledged, unless it is an open question: forwarding a question does not answer it.
    """
    original = mail.get_received(uow, number).mail
    uow.agents.get_active(agent)
    question = uow.mail.find_questions([number]).get(number)
    head = f"{note.strip()}\n\n" if note.strip() else ""
    body = f"{head}Forwarded from {original.sender.name}:\n\n{original.body}"
    subject = original.subject if original.subject.startswith(_FORWARD) else _FORWARD + original.subject
    sent = mail.send_mail(
        uow,
        [agent_participant(agent)],
        subject[:MAX_SUBJECT_CHARACTERS],
        body[:MAX_BODY_CHARACTERS],
        importance=original.importance,
    )
    if question is None or question.answer is not None:
        mail.acknowledge_mail(uow, number)
    return sent


def mute_mail(uow: UnitOfWork, number: int, sender: bool, until: int) -> str:
    """Hide the mail's thread, or everything from its sender, and return what was muted."""
    found = mail.get_received(uow, number).mail
    if sender and found.sender == SYSTEM:
        raise InvalidInput("Alerts from the server cannot be muted as a whole", hint="Mute this thread only")
    what = found.sender.key if sender else _thread_key(found)
    uow.mail.mute(what, until)
    return what


def unmute_mail(uow: UnitOfWork, what: str) -> bool:
    """Show muted mail again. Return False when it was not muted."""
    return uow.mail.unmute(what)


def is_muted(found: Mail, muted: dict[str, int]) -> bool:
    """Return whether a mail is hidden: `muted`, from `Mails.list_muted`, has its sender or its thread."""
    return found.sender.key in muted or _thread_key(found) in muted


def _thread_key(found: Mail) -> str:
    return f"thread:{found.thread}"
