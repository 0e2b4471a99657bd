"""Questions: an agent asks a person, and waits, or comes back later."""

from __future__ import annotations

from collections.abc import Sequence

from shopfloor.domain.events import QuestionAnswered
from shopfloor.domain.mail import HUMAN, NotYourMail, Question, party_of
from shopfloor.errors import InvalidInput, WrongState
from shopfloor.repositories.work import Work
from shopfloor.usecases import mail


def ask(work: Work, subject: str, body: str, options: Sequence[str], within: int) -> Question:
    """A question to the person in charge, which stays open until it is answered or its time is up."""
    if len(set(options)) != len(options):
        raise InvalidInput("The options must differ", field="options")
    number = mail.send(work, [HUMAN], subject, body, importance="high", wanted=True)
    work.mail.ask(number, party_of(work.actor), options, work.now + within)
    return work.mail.question(number)


def asked(work: Work, number: int) -> Question:
    """A question of the caller. An answer that the caller gets to see here need not be read again as mail."""
    question = work.mail.question(number)
    if question.asker != party_of(work.actor):
        raise NotYourMail(mail=f"mail-{number}")
    if question.reply is not None:
        work.mail.read(question.asker, question.reply, work.now)
    return question


def is_open(work: Work, number: int) -> bool:
    """Whether a mail asks something that may still be answered in time."""
    question = work.mail.find_question(number)
    return question is not None and question.state(work.now) == "OPEN"


def answer(work: Work, number: int, text: str) -> Question:
    """The question, answered by the caller; the answer is in the asker's inbox, too."""
    mail.received(work, number)
    question = work.mail.question(number)
    if question.answer is not None:
        raise WrongState(f"mail-{number} has been answered already: {question.answer}")
    if question.options and text not in question.options:
        raise InvalidInput(f"The answer must be one of: {', '.join(question.options)}", field="answer")
    reply = mail.reply(work, number, text)
    work.mail.answer(number, text, work.actor.key, reply, work.now)
    work.tell(QuestionAnswered(question=number, by=work.actor.key))
    return work.mail.question(number)
