"""Passages: the pieces of a file that a search can find."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from shopfloor.domain.words import words_of

_SEEN_BY_MODEL = 1200
"""Characters of a body that a model with 256 tokens can take in."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece of a file: a function, the head of a class, a section, a paragraph."""

    name: str
    kind: str
    start_line: int
    end_line: int
    signature: str
    body: str

    def meaning(self, path: str) -> str:
        """What a model is shown of it: where it is, what it is called, how it begins."""
        place = " ".join(words_of(path.rpartition(".")[0]))
        name = " ".join(words_of(self.name))
        return f"{name}. {place}\n{self.signature}\n{self.body[:_SEEN_BY_MODEL]}"


def digest_of(text: str) -> bytes:
    """What stands for a text wherever it occurs."""
    return hashlib.sha256(text.encode(errors="replace")).digest()[:16]
