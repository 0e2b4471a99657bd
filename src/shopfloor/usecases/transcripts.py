"""Transcripts: how the entries of agent sessions are recorded, listed and searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shopfloor.domain.redaction import redact
from shopfloor.domain.transcripts import Entry, NewEntry, clip_text, transcript_topic
from shopfloor.repositories.uow import UnitOfWork

SEARCHED_ENTRIES = 1_000
"""Entries that one search reads. The next page continues after them."""


def record_entries(uow: UnitOfWork, owner: str, session: str, iteration: int, entries: Sequence[NewEntry]) -> None:
    """Add entries to a transcript, or replace those with the same number, with secrets redacted."""
    revision = uow.transcripts.latest_revision(owner)
    for position, entry in enumerate(entries, 1):
        # Redacted before it is clipped: half of a secret would not be recognized.
        redacted = replace(
            entry,
            title=clip_text(redact(entry.title), 500),
            body=clip_text(redact(entry.body)),
            result=clip_text(redact(entry.result)),
        )
        uow.transcripts.put(owner, session, iteration, redacted, revision + position, uow.now)
    # No event: a busy agent changes its transcript every other second, and no subscriber needs to know.
    uow.notify(transcript_topic(owner))


def search_entries(
    uow: UnitOfWork, owner: str, text: str, limit: int, before: int | None, iteration: int | None
) -> tuple[list[Entry], int | None]:
    """Return entries that contain the text, latest first, and the number to continue before, if there are more."""
    # The numbers of a transcript have no gaps, so a range of numbers limits what is read.
    end = uow.transcripts.next_number(owner) if before is None else before
    first = max(end - SEARCHED_ENTRIES, 1)
    found = uow.transcripts.search(owner, text, first, end, limit, iteration)
    if len(found) == limit:
        return found, found[-1].number
    return found, first if first > 1 else None
