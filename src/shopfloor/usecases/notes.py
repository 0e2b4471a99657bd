"""Notes that a run keeps for its later iterations."""

from __future__ import annotations

from collections.abc import Sequence

from shopfloor.domain.run_events import NoteAdded
from shopfloor.domain.runs import Note, check_content, name_batch_item, parse_note_type
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import run_requests


def add_notes(uow: UnitOfWork, run: str, new: Sequence[tuple[str, str]]) -> list[Note]:
    """Add all notes, given as type and content, or none. A stuck note asks a person."""
    iteration = uow.runs.lock(run, uow.now).iteration
    added = []
    for position, (type, content) in enumerate(new, 1):
        with name_batch_item("note", position, len(new)):
            known_type, text = parse_note_type(type.strip()), check_content(content, "a note")
        note = uow.notes.add(run, iteration, known_type, text, uow.now)
        uow.emit(NoteAdded(run=run, note=note.number))
        if note.type == "stuck":
            run_requests.ask_person(uow, run, "stuck", note.content)
        added.append(note)
    return added
