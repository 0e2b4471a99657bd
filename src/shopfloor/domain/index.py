"""The index: what goes into it and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shopfloor.domain.chunks import Chunk, digest_text
from shopfloor.domain.tokenizer import expand_identifiers, list_distinct_words

MAX_EMBEDDED_DOCUMENT_CHARS = 2000
MAX_CHUNK_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A file as the index knows it."""

    path: str
    stamp: str
    digest: bytes
    language: str
    module: str
    role: str
    modified: int

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        name = self.path.rpartition("/")[2]
        return name.rpartition(".")[0] or name


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A piece of a file, or a whole document, with the words by which it is found."""

    type: str
    kind: str
    module: str | None
    name: str
    start_line: int
    end_line: int
    owner: str | None
    changed_at: int
    digest: bytes
    # Name, path, signature and body, each followed by the parts of its identifiers.
    words: tuple[str, str, str, str]
    # The names that it defines, folded: its own, and those of its constants, fields and settings.
    symbols: tuple[str, ...] = ()
    # How often the words of a file occur, packed: of the overview that has its words.
    word_counts: bytes | None = None


class Hit(NamedTuple):
    """A chunk that a search found. A tuple, because one search creates hundreds of them."""

    id: int
    root: str
    source: str
    ref: str
    type: str
    kind: str
    module: str | None
    name: str
    start_line: int
    end_line: int
    changed_at: int
    digest: bytes

    @property
    def symbol(self) -> str:
        """The last part of the name, by which other code refers to it."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class WordMatches:
    """The chunks with words of a query, each with its score, best first, and how common the words are."""

    hits: Sequence[tuple[Hit, float]] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of chunks with each term."""
    chunks: int = 0
    """Total number of chunks."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of the index that a search covers."""

    sources: Sequence[str] | None = None
    type: str | None = None
    module: str | None = None
    path: str | None = None
    """A glob of paths. With a path or a language, only code is searched."""
    language: str | None = None
    tests: bool | None = None
    """False excludes tests, True searches only tests."""

    @property
    def is_narrow(self) -> bool:
        """Whether few of the best results of an unrestricted search are likely to be within the scope."""
        by_value = self.type or self.module or self.path or self.language or self.tests
        return bool(by_value) or (self.sources is not None and "code" not in self.sources)


@dataclass(frozen=True, slots=True)
class SearchDocument:
    """A discovery, decision, task, comment, mail, note or summary, in the form that search uses."""

    source: str
    ref: str
    id: str
    type: str
    title: str
    text: str
    module: str | None
    session: str | None
    # The only principal that may find it, apart from the recipients of a mail.
    owner: str | None
    created_at: int
    changed_at: int

    @property
    def embedding_text(self) -> str:
        """The text that is embedded."""
        return f"{self.title}\n{self.text}"[:MAX_EMBEDDED_DOCUMENT_CHARS]


@dataclass(frozen=True, slots=True)
class EmbeddedCount:
    """The number of chunks with an embedding, and the total."""

    embedded: int
    chunks: int
    # The same for documents and overviews of files, which are embedded first.
    embedded_first: int
    first: int

    def __add__(self, other: EmbeddedCount) -> EmbeddedCount:
        return EmbeddedCount(
            self.embedded + other.embedded,
            self.chunks + other.chunks,
            self.embedded_first + other.embedded_first,
            self.first + other.first,
        )

    @property
    def complete(self) -> bool:
        return self.embedded >= self.chunks

    @property
    def percentage(self) -> int:
        return 100 if self.complete else self.embedded * 100 // self.chunks

    @property
    def first_share(self) -> float:
        return self.embedded_first / self.first if self.first else 0.0

    @property
    def share(self) -> float:
        return self.embedded / self.chunks if self.chunks else 0.0


@dataclass(frozen=True, slots=True)
class Freshness:
    """How far the index has caught up with the project."""

    files: int
    # Files that changed and are not indexed yet.
    changed: int
    # False while documents wait to be indexed.
    documents_indexed: bool = True

    @property
    def complete(self) -> bool:
        return self.changed == 0 and self.documents_indexed

    @property
    def percentage(self) -> int:
        if not self.files:
            return 0 if self.changed else 100
        return max(0, min(100, (self.files - self.changed) * 100 // self.files))


def index_file(file: IndexedFile, chunks: Sequence[Chunk], pack_words: Callable[[str], bytes]) -> list[IndexedChunk]:
    """Return the rows of a file's chunks. `pack_words` counts the words of a text."""
    return [
        IndexedChunk(
            type=file.role,
            kind=chunk.kind,
            module=file.module,
            name=chunk.name,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            owner=None,
            changed_at=file.modified,
            digest=digest_text(chunk.embedding_text),
            words=_list_words(file, chunk),
            symbols=tuple(
                dict.fromkeys(
                    name.lower() for name in (chunk.name.rpartition(".")[2], *chunk.symbols) if name.isidentifier()
                )
            ),
            word_counts=pack_words(f"{file.path}\n{chunk.searched}") if chunk.searched else None,
        )
        for chunk in chunks
    ]


def _list_words(file: IndexedFile, chunk: Chunk) -> tuple[str, str, str, str]:
    if chunk.searched is None:
        name, path, signature, body = map(expand_identifiers, (chunk.name, file.path, chunk.signature, chunk.body))
        return name, path, signature, body
    if not chunk.searched:
        return "", "", "", ""
    # Each word once: on the tuning half of the code search questions, word counts of a file add nothing.
    return (
        expand_identifiers(file.stem),
        expand_identifiers(file.path),
        list_distinct_words(chunk.signature),
        list_distinct_words(chunk.searched),
    )


def index_document(document: SearchDocument) -> IndexedChunk:
    """Return the row of a document."""
    return IndexedChunk(
        type=document.type,
        kind="",
        module=document.module,
        name=document.title[:MAX_CHUNK_NAME_CHARS],
        start_line=0,
        end_line=0,
        owner=document.owner,
        changed_at=document.changed_at,
        digest=digest_text(document.embedding_text),
        words=(expand_identifiers(document.title), document.module or "", "", expand_identifiers(document.text)),
    )
