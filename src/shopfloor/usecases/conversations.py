"""Conversations between a user and the assistant, turn by turn. Deleting a task needs the user's confirmation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shopfloor.domain.conversations import (
    ASSISTANT,
    INTERRUPTED,
    MAX_PENDING_DELETIONS,
    USER,
    Conversation,
    Message,
    PendingDeletion,
    format_question,
    shorten_title,
)
from shopfloor.domain.principals import Kind
from shopfloor.domain.tasks import Task
from shopfloor.errors import InvalidInput, InvalidState, NotFound, PermissionDenied
from shopfloor.gateways import tokens
from shopfloor.repositories.conversations import Conversations
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import todos, users


def begin_turn(
    uow: UnitOfWork, id: int | None, message: str, busy_for: int, history: int, confirmation: str | None = None
) -> tuple[Conversation, list[Message]]:
    """Add the user's message and return the conversation with its last messages. One turn at a time.

    With the id of the pending confirmation, the turn may carry out its deletions. Any other message discards them.
    """
    own = _own_conversations(uow)
    users.ensure_user(uow)
    conversation = own.get(id if id is not None else own.add(shorten_title(message), uow.now))
    # A turn whose process has died, or that took too long, must not block the conversation forever.
    busy = conversation.busy_until is not None and conversation.busy_until > uow.now
    if busy and conversation.busy_by in {None, *(process.id for process in uow.processes.list_all())}:
        raise InvalidState("The assistant is still answering your last message", hint="Wait for its answer")
    if confirmation is not None and confirmation != conversation.confirmation:
        raise InvalidState("This confirmation is no longer valid; nothing was deleted", hint="Ask the assistant again")
    if (last := own.list_last_messages(conversation.id, 1)) and last[0].role == USER:
        own.add_message(conversation.id, ASSISTANT, INTERRUPTED, uow.now, error="INTERRUPTED")
    own.add_message(conversation.id, USER, message, uow.now)
    begun = replace(
        conversation,
        pending=(),
        confirmation=None,
        confirmed=() if confirmation is None else conversation.pending,
        busy_until=uow.now + busy_for,
        busy_by=uow.process,
    )
    own.update(begun, uow.now)
    return begun, own.list_last_messages(conversation.id, history)


def delete_task(uow: UnitOfWork, id: int, number: int) -> tuple[Task, str | None]:
    """Delete a task if its deletion is confirmed. Otherwise keep it, and return the question for the user."""
    own = _own_conversations(uow)
    conversation, task = own.get(id), todos.get_task(uow, number)
    deletion = PendingDeletion(task.number, task.title)
    if deletion in conversation.confirmed:
        return todos.delete_task(uow, number), None
    others = tuple(each for each in conversation.pending if each.task != number)
    if len(others) >= MAX_PENDING_DELETIONS:
        raise InvalidInput(f"At most {MAX_PENDING_DELETIONS} deletions can be confirmed at once")
    own.update(replace(conversation, pending=(*others, deletion)), uow.now)
    return task, format_question([deletion])


def end_turn(uow: UnitOfWork, id: int, text: str, tool_calls: list[Any], error: str | None) -> tuple[Conversation, str]:
    """Add the assistant's answer, and the question about pending deletions if the model left it out."""
    own = _own_conversations(uow)
    conversation = own.get(id)
    question = format_question(conversation.pending) if conversation.pending else ""
    if question and question not in text:
        text = f"{text}\n\n{question}".strip()
    own.add_message(id, ASSISTANT, text, uow.now, tool_calls, error)
    ended = replace(
        conversation,
        confirmation=tokens.generate_id() if conversation.pending else None,
        confirmed=(),
        busy_until=None,
        busy_by=None,
    )
    own.update(ended, uow.now)
    return ended, text


def list_page(uow: UnitOfWork, limit: int, before: tuple[int, int] | None = None) -> list[Conversation]:
    """List the caller's conversations, the latest first."""
    return _own_conversations(uow).list_page(limit, before)


def read(uow: UnitOfWork, id: int, limit: int) -> tuple[Conversation, list[Message]]:
    """Return one conversation of the caller with its last messages."""
    own = _own_conversations(uow)
    return own.get(id), own.list_last_messages(id, limit)


def delete(uow: UnitOfWork, id: int) -> None:
    """Delete a conversation with its messages."""
    if not _own_conversations(uow).remove(id):
        raise NotFound(f"Conversation {id} not found", conversation=id)


def _own_conversations(uow: UnitOfWork) -> Conversations:
    if uow.actor.kind is not Kind.USER:
        raise PermissionDenied(f"Only users can talk to the assistant; the caller is {uow.actor.title}")
    return uow.conversations_of(uow.actor.name)
