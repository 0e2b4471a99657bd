"""Questions from agents to the operator: asked, answered, or lapsed."""

from __future__ import annotations

from collections.abc import Sequence

from shopfloor.domain.events import QuestionAnswered
from shopfloor.domain.mail import (
    CLIENT_PREFIX,
    HUMAN,
    NotYourMail,
    Question,
    Receipt,
    format_reply_subject,
    to_participant,
)
from shopfloor.errors import InvalidInput, InvalidState
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import crews, mail

# An older question is found on its page of the inbox.
MAX_SEARCHED_MAILS = 500


def ask_question(uow: UnitOfWork, subject: str, body: str, options: Sequence[str], within: int) -> Question:
    """Ask the operator; the question stays open until it is answered or its deadline has passed."""
    if len(set(options)) != len(options):
        raise InvalidInput("The options must differ", field="options")
    number = mail.send_mail(uow, [HUMAN], subject, body, importance="high", wanted=True)
    uow.mail.add_question(number, to_participant(uow.actor), options, uow.now + within)
    return uow.mail.get_question(number)


def get_own_question(uow: UnitOfWork, number: int) -> Question:
    """Return a question of the caller, and mark its answer as read."""
    question = uow.mail.get_question(number)
    if question.asker != to_participant(uow.actor):
        raise NotYourMail(mail=f"mail-{number}")
    if question.reply is not None:
        uow.mail.mark_read(question.asker, question.reply, uow.now)
    return question


def is_open(uow: UnitOfWork, number: int) -> bool:
    """Return whether a mail is a question that can still be answered."""
    question = uow.mail.find_questions([number]).get(number)
    return question is not None and question.state(uow.now) == "OPEN"


def list_open(uow: UnitOfWork, limit: int) -> list[Receipt]:
    """List the questions to the caller that can still be answered, newest first."""
    return uow.mail.list_open_questions(to_participant(uow.actor), uow.now, among=MAX_SEARCHED_MAILS, limit=limit)


def answer_question(uow: UnitOfWork, number: int, text: str) -> Question:
    """Answer a question with one of its options or in free text; the asker also gets the answer as mail.

    An option in other case gets the spelling of the asker, who compares it.
    """
    mail.get_received(uow, number)
    question = uow.mail.get_question(number)
    if question.answer is not None:
        raise InvalidState(f"mail-{number} has already been answered: {question.answer}")
    same = [option for option in question.options if option.casefold() == text.strip().casefold()]
    text = same[0] if len(same) == 1 else text
    reply = mail.reply_to_mail(uow, number, text)
    uow.mail.record_answer(number, text, uow.actor.key, reply, uow.now)
    uow.emit(QuestionAnswered(question=number, by=uow.actor.key))
    if question.asker.agent is not None:
        crews.continue_answered_tasks(uow, question.asker.agent, uow.mail.get(number).subject, text)
    return uow.mail.get_question(number)


def answer_in_client(uow: UnitOfWork, number: int, text: str) -> None:
    """Answer the caller's own open question with the text entered in the caller's client.

    The server cannot distinguish the person at a client from its program. So the answer and its mail say where it was
    given, and the mail is from the agent, not the operator. A question that is already answered keeps its answer.
    """
    question = get_own_question(uow, number)
    if question.state(uow.now) != "OPEN":
        return
    original = uow.mail.get(number)
    note = f"(Answered in the client of {question.asker.name}, not in the inbox.)"
    reply = mail.send_mail(
        uow, [question.asker], format_reply_subject(original.subject), f"{text}\n\n{note}", original=original
    )
    uow.mail.mark_read(HUMAN, number, uow.now)
    uow.mail.mark_acted(HUMAN, number, uow.now)
    by = f"{CLIENT_PREFIX}{question.asker.name}"
    uow.mail.record_answer(number, text, by, reply, uow.now)
    uow.emit(QuestionAnswered(question=number, by=by))
