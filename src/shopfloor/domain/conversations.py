"""Conversations with the assistant, and the deletions that wait for the user's confirmation.

The assistant deletes nothing by itself, no matter what the user writes or how the model understands it. A deletion that
it proposes is pending until the user sends the confirmation's id with the next message in the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MAX_MESSAGE_CHARACTERS = 4000
MAX_PENDING_DELETIONS = 20
MAX_TITLE_CHARACTERS = 60
USER, ASSISTANT = "user", "assistant"

INTERRUPTED = "I was interrupted before I could finish. What was already done is on your list; please ask again."


@dataclass(frozen=True, slots=True)
class PendingDeletion:
    """A deletion that the user is asked to confirm, with the title as the user read it."""

    task: int
    title: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation of one user."""

    id: int
    title: str
    # Deletions that wait for a confirmation.
    pending: tuple[PendingDeletion, ...]
    # The id that confirms them. It is valid for the next message only.
    confirmation: str | None
    # Deletions that the current turn may carry out.
    confirmed: tuple[PendingDeletion, ...]
    busy_until: int | None
    busy_by: int | None
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the user or the assistant."""

    id: int
    role: str
    text: str
    tool_calls: list[Any] | None
    error: str | None
    created_at: int


def format_question(deletions: Sequence[PendingDeletion]) -> str:
    """Format the question that the user has to confirm before these tasks are deleted."""
    if len(deletions) == 1:
        return f'Delete "{deletions[0].title}" (task {deletions[0].task})? Nothing is deleted until you confirm.'
    tasks = "\n".join(f'- "{each.title}" (task {each.task})' for each in deletions)
    return f"Delete these {len(deletions)} tasks? Nothing is deleted until you confirm.\n{tasks}"


def shorten_title(message: str) -> str:
    """Return the title of a conversation from its first message."""
    line = " ".join(message.split())
    return line if len(line) <= MAX_TITLE_CHARACTERS else line[: MAX_TITLE_CHARACTERS - 1].rstrip() + "…"
