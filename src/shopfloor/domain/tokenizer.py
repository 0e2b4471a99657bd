"""The tokenizer: splits identifiers into words, and picks the terms of a query."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

# The rest of a camelCase word from its first boundary on. It starts with a capital, which `re` finds quickly.
# In a run of capitals only the first is tried, so that the time does not grow quadratically.
_FROM_BOUNDARY = re.compile(r"[A-Z](?:(?<=[a-z0-9][A-Z])|(?<![A-Z][A-Z])[A-Z]+[a-z])\w*")
_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+")
_WORD = re.compile(r"[^\W_]+")
_SNAKE_CASE = re.compile(r"(?<![^\W_])[^\W_]+(?:_+[^\W_]+)+")
_SYMBOL = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*(?:\(\))?")

_KEYWORD = re.compile(
    r"(?:class|struct|trait|interface|enum|protocol|union|record|type|typedef|module|namespace|function|func|fn|fun|def"
    r"|method|macro|impl|const|constant|variable)\s+(?=\S*[A-Z_.:()]\S*$)"
)
"""The keyword of a definition, before a name that looks like code. In `type inference`, it is an ordinary word."""

# Words in nearly every text and, at the end, the verbs with which people start a search question.
STOP_WORDS = frozenset({
    "a", "an", "and", "any", "are", "as", "at", "be", "been", "being", "but", "by", "can", "could", "did", "do",
    "does", "doing", "done", "each", "for", "from", "had", "has", "have", "having", "he", "her", "here", "his",
    "how", "i", "if", "in", "into", "is", "it", "its", "itself", "just", "me", "more", "most", "my", "no",
    "nor", "not", "of", "off", "on", "once", "only", "or", "other", "our", "out", "over", "own", "same", "she",
    "should", "so", "some", "such", "than", "that", "the", "their", "them", "then", "there", "these", "they",
    "this", "those", "to", "too", "under", "until", "up", "very", "was", "we", "were", "what", "when", "where",
    "which", "while", "who", "whom", "why", "will", "with", "would", "you", "your", "find", "show", "get",
    "tell",
})  # fmt: skip


@lru_cache(maxsize=100_000)
def split_identifier(identifier: str) -> tuple[str, ...]:
    """Split camelCase and snake_case: HTTPServer_nameOf gives http, server, name, of."""
    return tuple(part.lower() for part in _BOUNDARY.split(identifier) if part)


def expand_identifiers(text: str) -> str:
    """Append the parts of compound identifiers to a text, for an index that cannot split them itself."""
    parts: list[str] = []
    # The pattern starts at a capital, which is rare, instead of at every word; together with related changes this took
    # 40 % off the CPU of a first index. The start of the word is searched backwards.
    for found in _FROM_BOUNDARY.finditer(text):
        start = found.start()
        while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
            start -= 1
        parts += split_identifier(text[start : found.end()])
    return f"{text} {' '.join(parts)}" if parts else text


def is_phrase(term: str) -> bool:
    """Return whether a term consists of several words, which the index must find next to each other."""
    return "_" in term


def split_words(text: str) -> list[str]:
    """Return the words of a text in order, identifiers split."""
    return [part for word in _WORD.findall(text) for part in split_identifier(word)]


def list_distinct_words(text: str) -> str:
    """Return each word of a text once, with compound identifiers also split, for an index that ignores order."""
    # Each word is split once, however often it occurs.
    words = set(_WORD.findall(text))
    return " ".join({word.lower() for word in words}.union(*map(split_identifier, words)))


def count_words(text: str) -> dict[str, int]:
    """Count the words of a text, identifiers split."""
    counts: dict[str, int] = {}
    for word, count in Counter(_WORD.findall(text)).items():
        for part in split_identifier(word):
            counts[part] = counts.get(part, 0) + count
    return counts


def extract_terms(query: str) -> list[str]:
    """Return the terms to search for, each once. Stop words are dropped, unless the query has nothing else.

    A compound identifier is a term in addition to its parts; with underscores, it is a phrase to the index.
    """
    whole = [word.lower() for word in _WORD.findall(query)]
    phrases = [name.lower() for name in _SNAKE_CASE.findall(query)]
    terms = list(dict.fromkeys([*split_words(query), *whole, *phrases]))
    rare = [term for term in terms if term not in STOP_WORDS and len(term) > 1]
    return rare or terms


_SUFFIXES = (
    "izations", "isations", "ization", "isation", "ations", "ation", "ments", "ment", "ities", "ions", "ings", "able",
    "ers", "ors", "ies", "ied", "ion", "ing", "ity", "es", "ed", "er", "or", "al", "ly", "s", "e",
)  # fmt: skip
MIN_STEM_CHARS = 3

MAX_SHORT_FORM_CHARS = 12
"""Longer prefixes are not abbreviations. Without a limit, a word of 500 characters had 248 short forms."""


def share_stem(word: str, term: str) -> bool:
    """Return whether two words are forms of one: `refresh` and `refreshing`, `auth` and `authentication`."""
    if word == term:
        return True
    # Most pairs already differ in letters that every stem keeps. Comparing their stems took a sixth of a search.
    if word[:MIN_STEM_CHARS] != term[:MIN_STEM_CHARS] or min(len(word), len(term)) < MIN_STEM_CHARS:
        return False
    return word.startswith(term) or term.startswith(word) or strip_suffix(word) == strip_suffix(term)


@lru_cache(maxsize=100_000)
def strip_suffix(word: str) -> str:
    """Return a word without its ending, so that forms of one word are equal."""
    # Most words have none of the endings. Trying each ending took a fifth of a search.
    if not word.endswith(_SUFFIXES):
        return word
    return next(
        (word[: -len(end)] for end in _SUFFIXES if word.endswith(end) and len(word) - len(end) >= MIN_STEM_CHARS), word
    )


_IDENTIFIER_IN_TEXT = re.compile(r"\b(?:[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|[a-z]+(?:[A-Z][a-z0-9]+)+|\w+_\w+)\b")


def find_symbols_in_text(text: str) -> list[str]:
    """Return the identifiers inside a sentence: words in camelCase or with an underscore."""
    return list(dict.fromkeys(_IDENTIFIER_IN_TEXT.findall(text)))


def list_short_forms(word: str) -> list[str]:
    """Return the prefixes by which code may abbreviate a word: `auth` for authentication."""
    if word.isdecimal():
        return []
    forms = (word[:length] for length in range(MIN_STEM_CHARS, min(len(word) // 2, MAX_SHORT_FORM_CHARS) + 1))
    # `for` is not an abbreviation of forecast.
    return [form for form in forms if form not in STOP_WORDS]


def find_symbol(query: str) -> str | None:
    """Return the identifier if a query consists of just one, or None."""
    text = _KEYWORD.sub("", query.strip()).strip("`'\"")
    return text.removesuffix("()") if _SYMBOL.fullmatch(text) else None
