"""Words: how identifiers come apart, and what of a question is worth looking for."""

from __future__ import annotations

import re
from functools import lru_cache

_FROM_SEAM = re.compile(r"[A-Z](?:(?<=[a-z0-9][A-Z])|[A-Z]+[a-z])\w*")
"""The rest of a camelCase word from its first seam on. It begins with a capital, which is searched for quickly."""
_SEAM = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+")
_WORD = re.compile(r"[^\W_]+")
_SYMBOL = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*(?:\(\))?")

STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "being",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "doing",
        "done",
        "each",
        "for",
        "from",
        "had",
        "has",
        "have",
        "having",
        "he",
        "her",
        "here",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "itself",
        "just",
        "me",
        "more",
        "most",
        "my",
        "no",
        "nor",
        "not",
        "of",
        "off",
        "on",
        "once",
        "only",
        "or",
        "other",
        "our",
        "out",
        "over",
        "own",
        "same",
        "she",
        "should",
        "so",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "to",
        "too",
        "under",
        "until",
        "up",
        "very",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "whom",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
        "find",
        "show",
        "get",
        "tell",
    ]
)


@lru_cache(maxsize=100_000)
def parts_of(identifier: str) -> tuple[str, ...]:
    """camelCase and snake_case as words: HTTPServer_nameOf is http, server, name, of."""
    return tuple(part.lower() for part in _SEAM.split(identifier) if part)


def spread(text: str) -> str:
    """The text followed by the parts of its compound identifiers, for an index that cannot split them itself."""
    compounds = [text[_start(text, found.start()) : found.end()] for found in _FROM_SEAM.finditer(text)]
    return text if not compounds else f"{text} {' '.join(' '.join(parts_of(each)) for each in compounds)}"


def _start(text: str, place: int) -> int:
    """Where the word begins that this place lies in."""
    while place and (text[place - 1].isalnum() or text[place - 1] == "_"):
        place -= 1
    return place


def words_of(text: str) -> list[str]:
    """Every word of the text, identifiers taken apart, in order."""
    return [part for word in _WORD.findall(text) for part in parts_of(word)]


def terms_of(query: str) -> list[str]:
    """What of a question to look for, each term once: stop words left out, unless nothing else is there."""
    whole = [word.lower() for word in _WORD.findall(query)]
    terms = list(dict.fromkeys([*words_of(query), *whole]))
    telling = [term for term in terms if term not in STOP_WORDS and len(term) > 1]
    return telling or terms


def symbol_in(query: str) -> str | None:
    """The identifier that the query is, if it is nothing else."""
    text = query.strip().strip("`'\"")
    return text.removesuffix("()") if _SYMBOL.fullmatch(text) else None
