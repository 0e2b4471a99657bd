"""Tools for what a run learns."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from shopfloor.domain.runs import NOTE_TYPES, Note, parse_note_type
from shopfloor.errors import InvalidInput
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolsets.loop.contract import fit_lines, toolset
from shopfloor.usecases import notes as run_notes

Type = Annotated[str, WithJsonSchema({"type": "string", "enum": list(NOTE_TYPES)})]
_PAGE = 50


class GivenNote(BaseModel):
    """A note to add."""

    model_config = ConfigDict(extra="forbid", strict=True)

    content: Annotated[
        str, Field(description="What the next iteration should know (1-10000 characters)", max_length=10_000)
    ]
    type: Annotated[Type, Field(description="stuck asks a person for help")]


@toolset.tool("note-add")
def add(
    uow: UnitOfWork, notes: Annotated[list[GivenNote], Field(description="1-100 notes", min_length=1, max_length=100)]
) -> str:
    """Add notes for the next iterations. All given notes are added, or none."""
    added = run_notes.add_notes(uow, uow.actor.name, [(note.type, note.content) for note in notes])
    return "\n".join(f"Added {_format_note(note)}" for note in added)


@toolset.tool("note-list", read_only=True)
def list_notes(
    uow: UnitOfWork,
    type: Annotated[Type | None, Field(description="Only notes of this type")] = None,
    limit: Annotated[int, Field(description="Maximum number of entries (1-200, default 50)", ge=1, le=200)] = _PAGE,
    cursor: Annotated[str, Field(description="The cursor that the previous list ended with", max_length=20)] = "",
) -> str:
    """List the notes, oldest first: those of one type, or all."""
    wanted = parse_note_type(type.strip()) if type and type.strip() else None
    after = cursor.strip() or "0"
    if not (after.isascii() and after.isdigit()) or len(after) > 18:
        raise InvalidInput("this is not a cursor of note-list", hint="Call note-list without a cursor")
    notes = uow.notes.list_page(uow.actor.name, limit + 1, type=wanted, after=int(after))
    lines, more = fit_lines(((_format_note(note), str(note.number)) for note in notes), limit)
    if not lines:
        return "There are no more notes." if cursor else "There are no notes yet. Add some with note-add."
    return "\n".join(lines) + (f"\n\nThere are more: call note-list with cursor {more}" if more else "")


def _format_note(note: Note) -> str:
    return f"{note.id} [{note.type}, iteration {note.iteration}] {note.content}"
