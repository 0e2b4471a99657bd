"""The own conversations with the assistant, and the steps of one turn."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from shopfloor.domain.conversations import MESSAGE_LIMIT, Conversation, Message
from shopfloor.domain.times import SECOND, iso_seconds
from shopfloor.errors import InvalidInput
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Json
from shopfloor.toolsets.personal.manners import toolset
from shopfloor.usecases import conversations

PAGE = 50
READ = 200


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


ConversationId = Annotated[str, Field(description="Like conv-12", pattern=r"^conv-[1-9][0-9]{0,17}$")]
TaskId = Annotated[int, Field(description="The task's id", ge=1)]
Said = Annotated[
    str, Field(description="What the user says", min_length=1, max_length=MESSAGE_LIMIT), BeforeValidator(_stripped)
]
Limit = Annotated[int, Field(description="At most so many", ge=1, le=READ)]
Text = Annotated[str, Field(description="What the assistant says")]
Calls = Annotated[list[Any], Field(description="What it did: tool, arguments and result of each call")]
Code = Annotated[str, Field(description="Why the turn failed, if it did")]
Cursor = Annotated[str, Field(description="nextCursor of the answer before")]
Seconds = Annotated[int, Field(description="How long the turn may take", ge=1, le=3600)]


@toolset.tool("begin_turn")
def begin_turn(
    work: Work, message: Said, history: Limit, seconds: Seconds, conversation_id: ConversationId | None = None
) -> Json:
    """Say something to the assistant, in a conversation or in a new one."""
    known = None if conversation_id is None else _number(conversation_id)
    number, said = conversations.begin(work, known, message, seconds * SECOND, history)
    return {"conversationId": f"conv-{number}", "messages": [_message(each) for each in said]}


@toolset.tool("delete_in_turn", destructive=True)
def delete_in_turn(work: Work, conversation_id: ConversationId, task_id: TaskId) -> Json:
    """Delete a task if the user agreed to it; otherwise the answer is what to ask."""
    task, asked = conversations.delete_task(work, _number(conversation_id), task_id)
    return {"taskId": task.number, "title": task.title, "deleted": asked is None, "question": asked}


@toolset.tool("end_turn")
def end_turn(
    work: Work, conversation_id: ConversationId, text: Text, tool_calls: Calls, error: Code | None = None
) -> Json:
    """Keep what the assistant answered."""
    return {"text": conversations.end(work, _number(conversation_id), text, tool_calls, error)}


@toolset.tool("show_conversations", read_only=True)
def show_conversations(work: Work, limit: Limit = PAGE, cursor: Cursor | None = None) -> Json:
    """The own conversations, the latest first."""
    found = conversations.page(work, limit + 1, None if cursor is None else _position(cursor))
    answer: Json = {"conversations": [_conversation(each) for each in found[:limit]]}
    if len(found) > limit:
        answer["nextCursor"] = f"{found[limit - 1].updated_at}.{found[limit - 1].id}"
    return answer


@toolset.tool("read_conversation", read_only=True)
def read_conversation(work: Work, conversation_id: ConversationId, limit: Limit = READ) -> Json:
    """What was said in a conversation."""
    conversation, said = conversations.read(work, _number(conversation_id), limit)
    asked = [{"taskId": each.task, "title": each.title} for each in conversation.asked]
    return {**_conversation(conversation), "asked": asked, "messages": [_message(each) for each in said]}


@toolset.tool("forget_conversation", destructive=True)
def forget_conversation(work: Work, conversation_id: ConversationId) -> Json:
    """Delete a conversation with all that was said in it."""
    conversations.forget(work, _number(conversation_id))
    return {"conversationId": conversation_id, "deleted": True}


def _number(id: str) -> int:
    return int(id.removeprefix("conv-"))


def _position(cursor: str) -> tuple[int, int]:
    at, _, id = cursor.partition(".")
    if not (at.isdecimal() and id.isdecimal() and len(cursor) < 38):
        raise InvalidInput("cursor is nextCursor of the answer before", field="cursor")
    return int(at), int(id)


def _conversation(conversation: Conversation) -> Json:
    return {
        "conversationId": f"conv-{conversation.id}",
        "title": conversation.title,
        "createdAt": iso_seconds(conversation.created_at),
        "updatedAt": iso_seconds(conversation.updated_at),
    }


def _message(message: Message) -> Json:
    return {
        "role": message.role,
        "text": message.text,
        "toolCalls": message.tool_calls or [],
        "error": message.error,
        "createdAt": iso_seconds(message.created_at),
    }
