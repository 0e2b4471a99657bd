"""What a user says to the assistant, turn by turn, and the one thing the assistant may not do by itself: delete."""

from __future__ import annotations

from typing import Any

from shopfloor.domain.actors import Kind
from shopfloor.domain.conversations import (
    ASKED_LIMIT,
    ASSISTANT,
    INTERRUPTED,
    USER,
    Asked,
    Conversation,
    Message,
    agrees,
    names,
    question,
    title_of,
)
from shopfloor.domain.tasks import Task
from shopfloor.errors import InvalidInput, NotFound, PermissionDenied, WrongState
from shopfloor.repositories.conversations import Conversations
from shopfloor.repositories.work import Work
from shopfloor.usecases import people, todos


def begin(work: Work, id: int | None, message: str, busy_for: int, history: int) -> tuple[int, list[Message]]:
    """The conversation with the user's message in it, and the last that was said. Only one turn at a time."""
    own = _own(work)
    people.ensure(work)
    conversation = own.get(id if id is not None else own.add(title_of(message), work.now))
    if _busy(work, conversation):
        raise WrongState("The assistant is still answering your last message", hint="Wait for its answer")
    if (said := own.last(conversation.id, 1)) and said[0].role == USER:
        own.say(conversation.id, ASSISTANT, INTERRUPTED, work.now, error="INTERRUPTED")
    own.say(conversation.id, USER, message, work.now)
    granted = conversation.asked if agrees(message) else ()
    until = work.now + busy_for
    own.change(conversation.id, work.now, asked=(), granted=granted, busy_until=until, busy_by=work.process)
    return conversation.id, own.last(conversation.id, history)


def delete_task(work: Work, id: int, number: int) -> tuple[Task, str | None]:
    """The task, deleted; or still there, with the question that the user has to say yes to first."""
    own = _own(work)
    conversation, task = own.get(id), todos.get(work, number)
    this = Asked(task.number, task.title)
    agreed = this in conversation.granted or names(
        own.last_of_user(id), number, [(each.number, each.title) for each in todos.everything(work, None)]
    )
    if agreed:
        return todos.delete(work, number), None
    asked = tuple(each for each in conversation.asked if each.task != number)
    if len(asked) >= ASKED_LIMIT:
        raise InvalidInput(f"At most {ASKED_LIMIT} tasks can be asked about at once")
    _change(work, conversation, asked=(*asked, this))
    return task, question([this])


def end(work: Work, id: int, text: str, tool_calls: list[Any], error: str | None) -> str:
    """What the user reads: the answer, and the question about deletions, whatever the model made of it."""
    own = _own(work)
    conversation = own.get(id)
    asked = question(conversation.asked) if conversation.asked else ""
    if asked and asked not in text:
        text = f"{text}\n\n{asked}".strip()
    own.say(id, ASSISTANT, text, work.now, tool_calls, error)
    own.change(id, work.now, asked=conversation.asked, granted=(), busy_until=None, busy_by=None)
    return text


def page(work: Work, limit: int, before: tuple[int, int] | None = None) -> list[Conversation]:
    """The caller's conversations, the latest first."""
    return _own(work).page(limit, before)


def read(work: Work, id: int, limit: int) -> tuple[Conversation, list[Message]]:
    """One conversation of the caller, and the last that was said in it."""
    own = _own(work)
    return own.get(id), own.last(id, limit)


def forget(work: Work, id: int) -> None:
    """The conversation is gone, with all that was said."""
    if not _own(work).remove(id):
        raise NotFound(f"Conversation {id} not found", conversation=id)


def _own(work: Work) -> Conversations:
    if work.actor.kind is not Kind.USER:
        raise PermissionDenied(f"Only users talk to the assistant; this is {work.actor.title}")
    return work.conversations_of(work.actor.name)


def _busy(work: Work, conversation: Conversation) -> bool:
    """Whether a turn is under way; one whose process is gone is not."""
    if conversation.busy_until is None or conversation.busy_until <= work.now:
        return False
    return conversation.busy_by is None or conversation.busy_by in {each.id for each in work.processes.all()}


def _change(work: Work, conversation: Conversation, *, asked: tuple[Asked, ...]) -> None:
    _own(work).change(
        conversation.id,
        work.now,
        asked=asked,
        granted=conversation.granted,
        busy_until=conversation.busy_until,
        busy_by=conversation.busy_by,
    )
