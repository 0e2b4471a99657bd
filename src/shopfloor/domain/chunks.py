"""Chunks: the pieces of a file that a search can find."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from shopfloor.domain.tokenizer import split_words

# Changes when files are chunked or tokenized differently; files indexed under another version are indexed again.
CHUNKING_VERSION = 7

OVERVIEW = "file"
"""The kind of the two chunks that represent a whole file. The first is found by all words of the file and embeds its
description of itself; the second embeds the names in it, and has no words."""

NOT_EMBEDDED = b""
"""The digest of a chunk without any text to embed."""

# The signature, the comment and the first lines say what a chunk does. On four packages of the tuning half, fused NDCG@10
# of questions is the same with 300 characters as with 1200, which take twice the CPU.
MAX_EMBEDDED_BODY_CHARS = 300


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece of a file: a function, the head of a class, a section, a paragraph."""

    name: str
    kind: str
    start_line: int
    end_line: int
    signature: str
    body: str
    symbols: tuple[str, ...] = ()
    """Other names that the chunk defines: constants, variables, fields and settings."""
    searched: str | None = None
    """The text whose words are indexed: None means the body; an empty text is not indexed by words."""

    @property
    def embedding_text(self) -> str:
        """The text that is embedded."""
        if self.kind == OVERVIEW:
            return self.body
        # The path is left out, so that a moved file keeps its embeddings.
        name = " ".join(split_words(self.name))
        return f"{name}\n{self.body[:MAX_EMBEDDED_BODY_CHARS]}"


def digest_text(text: str) -> bytes:
    """Return the key of a text's embedding, the same wherever the text occurs."""
    if not text.strip():
        return NOT_EMBEDDED
    return hashlib.sha256(text.encode(errors="replace")).digest()[:16]


def digest_file(data: bytes) -> bytes:
    """Return the digest that identifies the content of a file."""
    return hashlib.sha256(data).digest()[:16]
