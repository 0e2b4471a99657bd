"""A user's conversations with the assistant, and the steps of one turn."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from shopfloor.domain.conversations import MAX_MESSAGE_CHARACTERS, Conversation, Message, format_question
from shopfloor.domain.times import SECOND, format_iso_seconds
from shopfloor.errors import InvalidInput
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json
from shopfloor.toolsets.personal.contract import toolset
from shopfloor.usecases import conversations

PAGE_SIZE = 50
MAX_MESSAGES = 200


ConversationId = Annotated[str, Field(description="Such as conv-12", pattern=r"^conv-[1-9][0-9]{0,17}$")]
TaskId = Annotated[int, Field(description="The task's id", ge=1)]
UserMessage = Annotated[
    str,
    Field(description="What the user says", min_length=1, max_length=MAX_MESSAGE_CHARACTERS),
    BeforeValidator(lambda given: given.strip() if isinstance(given, str) else given),
]
ConfirmationId = Annotated[
    str, Field(description="The id of the pending confirmation, to carry it out", min_length=1, max_length=64)
]
Limit = Annotated[int, Field(description="Maximum number of entries", ge=1, le=MAX_MESSAGES)]
Text = Annotated[str, Field(description="What the assistant says")]
Calls = Annotated[list[Any], Field(description="Tool, arguments and result of each call")]
Code = Annotated[str, Field(description="Why the turn failed, if it did")]
Cursor = Annotated[str, Field(description="nextCursor of the previous response")]
Seconds = Annotated[int, Field(description="Time limit of the turn", ge=1, le=3600)]


@toolset.tool("begin_turn")
def begin_turn(
    uow: UnitOfWork,
    message: UserMessage,
    history: Limit,
    seconds: Seconds,
    conversation_id: ConversationId | None = None,
    confirmation_id: ConfirmationId | None = None,
) -> Json:
    """Say something to the assistant, in a conversation or in a new one."""
    known = None if conversation_id is None else _parse_id(conversation_id)
    conversation, messages = conversations.begin_turn(uow, known, message, seconds * SECOND, history, confirmation_id)
    return {
        "conversationId": f"conv-{conversation.id}",
        "messages": [_to_message(each) for each in messages],
        "confirmed": [each.task for each in conversation.confirmed],
    }


@toolset.tool("delete_in_turn", destructive=True)
def delete_in_turn(uow: UnitOfWork, conversation_id: ConversationId, task_id: TaskId) -> Json:
    """Delete a task if the user has confirmed it. Otherwise return the question to confirm."""
    task, question = conversations.delete_task(uow, _parse_id(conversation_id), task_id)
    return {"taskId": task.number, "title": task.title, "deleted": question is None, "question": question}


@toolset.tool("end_turn")
def end_turn(
    uow: UnitOfWork, conversation_id: ConversationId, text: Text, tool_calls: Calls, error: Code | None = None
) -> Json:
    """Add the assistant's answer to the conversation."""
    conversation, text = conversations.end_turn(uow, _parse_id(conversation_id), text, tool_calls, error)
    return {"text": text, "confirmation": _to_confirmation(conversation)}


@toolset.tool("show_conversations", read_only=True)
def show_conversations(uow: UnitOfWork, limit: Limit = PAGE_SIZE, cursor: Cursor | None = None) -> Json:
    """List your conversations, the latest first."""
    before = None
    if cursor is not None:
        at, _, id = cursor.partition(".")
        # Two numbers of 18 digits and the dot: each fits into the 64 bits of a column.
        if not (at.isdecimal() and id.isdecimal() and len(cursor) < 38):
            raise InvalidInput("cursor must be nextCursor of the previous response", field="cursor")
        before = int(at), int(id)
    found = conversations.list_page(uow, limit + 1, before)
    answer: Json = {"conversations": [_to_summary(each) for each in found[:limit]]}
    if len(found) > limit:
        # Two conversations may have been changed in the same microsecond, so the time alone would skip one.
        answer["nextCursor"] = f"{found[limit - 1].updated_at}.{found[limit - 1].id}"
    return answer


@toolset.tool("read_conversation", read_only=True)
def read_conversation(uow: UnitOfWork, conversation_id: ConversationId, limit: Limit = MAX_MESSAGES) -> Json:
    """Read the messages of a conversation."""
    conversation, messages = conversations.read(uow, _parse_id(conversation_id), limit)
    return {
        **_to_summary(conversation),
        "confirmation": _to_confirmation(conversation),
        "messages": [_to_message(each) for each in messages],
    }


@toolset.tool("forget_conversation", destructive=True)
def forget_conversation(uow: UnitOfWork, conversation_id: ConversationId) -> Json:
    """Delete a conversation with its messages."""
    conversations.delete(uow, _parse_id(conversation_id))
    return {"conversationId": conversation_id, "deleted": True}


def _to_confirmation(conversation: Conversation) -> Json | None:
    """Return what waits for the user's confirmation, or None."""
    if conversation.confirmation is None:
        return None
    return {
        "id": conversation.confirmation,
        "question": format_question(conversation.pending),
        "tasks": [{"taskId": each.task, "title": each.title} for each in conversation.pending],
    }


def _parse_id(id: str) -> int:
    return int(id.removeprefix("conv-"))


def _to_summary(conversation: Conversation) -> Json:
    return {
        "conversationId": f"conv-{conversation.id}",
        "title": conversation.title,
        "createdAt": format_iso_seconds(conversation.created_at),
        "updatedAt": format_iso_seconds(conversation.updated_at),
    }


def _to_message(message: Message) -> Json:
    return {
        "role": message.role,
        "text": message.text,
        "toolCalls": message.tool_calls or [],
        "error": message.error,
        "createdAt": format_iso_seconds(message.created_at),
    }
