"""What a person does with mail beyond answering it: passing it on, and muting it."""

from __future__ import annotations

from shopfloor.domain.mail import FLOOR, SUBJECT_LIMIT, Mail, agent_party
from shopfloor.errors import InvalidInput
from shopfloor.repositories.work import Work
from shopfloor.usecases import mail

_FORWARD = "Fwd: "


def delegate(work: Work, number: int, agent: str, note: str) -> int:
    """The number of the mail that passes another one on; unless that asks something, it is seen to."""
    original = mail.received(work, number).mail
    work.agents.active(agent)
    question = work.mail.find_question(number)
    head = f"{note.strip()}\n\n" if note.strip() else ""
    body = f"{head}Passed on from {original.sender.name}:\n\n{original.body}"
    subject = original.subject if original.subject.startswith(_FORWARD) else _FORWARD + original.subject
    sent = mail.send(work, [agent_party(agent)], subject[:SUBJECT_LIMIT], body[:_LIMIT], importance=original.importance)
    if question is None or question.answer is not None:
        mail.acknowledge(work, number)
    return sent


def mute(work: Work, number: int, sender: bool, until: int) -> str:
    """What is out of sight from now on: the mail's thread, or everything from its sender."""
    found = mail.received(work, number).mail
    if sender and found.sender == FLOOR:
        raise InvalidInput("The floor's own alarms cannot be muted altogether", hint="Mute this thread only")
    what = found.sender.key if sender else _thread(found)
    work.mail.mute(what, until)
    return what


def muted(found: Mail, muted: dict[str, int]) -> bool:
    """Whether a mail is out of sight."""
    return found.sender.key in muted or _thread(found) in muted


def _thread(found: Mail) -> str:
    return f"thread:{found.thread}"


_LIMIT = 64 * 1024
