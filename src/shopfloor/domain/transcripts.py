"""Transcripts: what an agent said, thought, planned, called and asked in its sessions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from shopfloor.errors import InvalidInput

MAX_TEXT_CHARACTERS = 20_000
"""Maximum length of an entry's text. A longer text keeps its beginning and its end."""

MAX_SESSION_ENTRIES = 2_000
MAX_SESSION_CHARACTERS = 1_000_000
"""How much of a session is kept. After that, one last entry counts what was dropped."""

OWNER_KINDS = ("run", "agent")


class EntryKind(StrEnum):
    """The kind of an entry."""

    PROMPT = "prompt"
    MESSAGE = "message"
    THOUGHT = "thought"
    TOOL_CALL = "tool_call"
    PLAN = "plan"
    PERMISSION = "permission"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry from its recorder. An entry with the number of an earlier one replaces it.

    `title` is the first line, `body` what was said, asked or passed as arguments, `result` the outcome of a call or the
    answer to a question. A plan's body has a line per step, marked as in a Markdown checklist.
    """

    number: int
    kind: EntryKind
    title: str
    status: str
    body: str
    result: str
    created_at: int


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as stored. `revision` increases with each change."""

    number: int
    revision: int
    session: str
    iteration: int
    kind: EntryKind
    title: str
    status: str
    body: str
    result: str
    created_at: int
    updated_at: int


def parse_owner(text: str) -> str:
    """Return the owner of a transcript, such as run:NAME, or raise InvalidInput."""
    kind, colon, name = text.partition(":")
    if not colon or kind not in OWNER_KINDS or not name:
        raise InvalidInput(f"'{text[:80]}' has no transcript", field="owner", hint="Write run:NAME or agent:NAME")
    return text


def clip_text(text: str, limit: int = MAX_TEXT_CHARACTERS) -> str:
    """Return the text; if too long, its beginning and its end with a mark in between."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters were left out …\n{text[-half:]}"


def transcript_topic(owner: str) -> str:
    """Return the topic that is notified when a transcript changes."""
    return f"transcript:{owner}"
