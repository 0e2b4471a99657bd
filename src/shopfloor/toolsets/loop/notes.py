"""Tools for what a run learns."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from shopfloor.domain.loops import NOTE_TYPES, Note, read_note_type
from shopfloor.errors import InvalidInput
from shopfloor.repositories.work import Work
from shopfloor.toolsets.loop.manners import fitting, toolset
from shopfloor.usecases import loops

_WORDS = ", ".join(NOTE_TYPES)
_PAGE = 50


class GivenNote(BaseModel):
    """A note as an agent writes it down."""

    model_config = ConfigDict(extra="forbid", strict=True)

    content: Annotated[
        str, Field(description="What the next iteration should know (1-10000 characters)", max_length=10_000)
    ]
    type: Annotated[str, Field(description=f"One of {_WORDS}; stuck asks a person for help")]


@toolset.tool("note-add")
def add(
    work: Work, notes: Annotated[list[GivenNote], Field(description="1-100 notes", min_length=1, max_length=100)]
) -> str:
    """Write down what the iterations to come should know: all of the given notes are added, or none."""
    added = loops.add_notes(work, work.actor.name, [(note.type, note.content) for note in notes])
    return "\n".join(f"Added {_line(note)}" for note in added)


@toolset.tool("note-list", read_only=True)
def list_notes(
    work: Work,
    type: Annotated[str, Field(description=f"Only notes of this type: {_WORDS}")] = "",
    limit: Annotated[int, Field(description="How many at most (1-200, default 50)", ge=1, le=200)] = _PAGE,
    cursor: Annotated[str, Field(description="Where the list before this one was cut", max_length=20)] = "",
) -> str:
    """Show what was noted so far, oldest first: notes of one type, or all."""
    wanted = read_note_type(type.strip()) if type.strip() else None
    notes = work.run_talk.notes(work.actor.name, limit + 1, type=wanted, after=_position(cursor))
    lines, more = fitting(((_line(note), str(note.number)) for note in notes), limit)
    if not lines:
        return "There are no more notes." if cursor else "There are no notes yet. Add some with note-add."
    return "\n".join(lines) + (f"\n\nThere are more: call note-list with cursor {more}" if more else "")


def _position(cursor: str) -> int:
    text = cursor.strip() or "0"
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InvalidInput("this is not a cursor of note-list", hint="Call note-list without a cursor")
    return int(text)


def _line(note: Note) -> str:
    return f"{note.id} [{note.type}, iteration {note.iteration}] {note.content}"
