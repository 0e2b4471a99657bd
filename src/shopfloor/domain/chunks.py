"""Passages: the pieces of a file that a search can find."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from shopfloor.domain.words import words_of

VERSION = 2
"""Of how files are cut and words are found in them; with another number, what was indexed before is indexed again."""

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

    @property
    def meaning(self) -> str:
        """What a model is shown of it: what it is called and how it begins, wherever it lies."""
        name = " ".join(words_of(self.name))
        return f"{name}\n{self.signature}\n{self.body[:_SEEN_BY_MODEL]}"


def digest_of(text: str) -> bytes:
    """What stands for a text wherever it occurs."""
    return hashlib.sha256(text.encode(errors="replace")).digest()[:16]
