"""Transcripts: what an agent said, thought, planned, called and asked in its sessions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from shopfloor.errors import InvalidInput

MAX_TEXT_CHARACTERS = 20_000
"""The longest text of an entry. Of a longer one, the beginning and the end are kept."""

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
    """An entry as its recorder knows it. An entry with the number of an earlier one replaces it.

    `title` is the first line, `body` what was said, asked or given as arguments, `result` the outcome of a call or the
    answer to a question. A plan has a line per step in its body, each with a mark as in a Markdown checklist.
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
    """An entry as it is stored. `revision` is a new number with each change."""

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
    """Return the text, or of a longer one its beginning and its end with a mark between them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters were left out …\n{text[-half:]}"


def transcript_topic(owner: str) -> str:
    """Return the topic that is notified when a transcript changes."""
    return f"transcript:{owner}"
