"""The index: what is put into it and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shopfloor.domain.chunks import Chunk, digest_of
from shopfloor.domain.places import role_of
from shopfloor.domain.words import spread


@dataclass(frozen=True, slots=True)
class Filed:
    """A file as the index knows it."""

    path: str
    stamp: str
    digest: bytes
    language: str
    module: str
    role: str
    modified: int


@dataclass(frozen=True, slots=True)
class Passage:
    """Something that can be found, and the words to find it by."""

    type: str
    module: str | None
    name: str
    start_line: int
    end_line: int
    owner: str | None
    changed_at: int
    digest: bytes
    words: tuple[str, str, str, str]
    """Name, path, signature and body, identifiers spread out."""


class Hit(NamedTuple):
    """A passage that was found; hundreds are made for a search, so it is a tuple."""

    id: int
    root: str
    source: str
    ref: str
    type: str
    module: str | None
    name: str
    start_line: int
    end_line: int
    changed_at: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look."""

    sources: Sequence[str] | None = None
    type: str | None = None
    module: str | None = None

    @property
    def narrow(self) -> bool:
        """Whether it leaves something out."""
        return self != Scope()


@dataclass(frozen=True, slots=True)
class Written:
    """Something that somebody wrote and that can be found: a discovery, a decision, a task, a mail, a note."""

    source: str
    ref: str
    id: str
    type: str
    title: str
    text: str
    module: str | None
    session: str | None
    owner: str | None
    """Who alone may find it."""
    created_at: int
    changed_at: int
    outdated: str | None = None
    """Why it may no longer hold."""


def passages_of(file: Filed, chunks: Sequence[Chunk]) -> list[Passage]:
    """A file's chunks as they can be found."""
    role = role_of(file.path)
    return [
        Passage(
            type=role,
            module=file.module,
            name=chunk.name,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            owner=None,
            changed_at=file.modified,
            digest=digest_of(chunk.meaning),
            words=(spread(chunk.name), spread(file.path), spread(chunk.signature), spread(chunk.body)),
        )
        for chunk in findable(chunks)
    ]


def findable(chunks: Sequence[Chunk]) -> Sequence[Chunk]:
    """The chunks of a file; of an empty one its name can still be found."""
    return chunks or [Chunk("", "text", 1, 1, "", "")]


def passage_of(written: Written) -> Passage:
    """What somebody wrote, as it can be found."""
    return Passage(
        type=written.type,
        module=written.module,
        name=written.title[:200],
        start_line=0,
        end_line=0,
        owner=written.owner,
        changed_at=written.changed_at,
        digest=digest_of(meaning_of(written)),
        words=(spread(written.title), written.module or "", "", spread(written.text)),
    )


def meaning_of(written: Written) -> str:
    """What a model is shown of what somebody wrote."""
    return f"{written.title}\n{written.text}"[:2000]
