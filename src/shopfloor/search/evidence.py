"""Evidence: how much of a query one result answers, as a number that means the same in every search."""

from __future__ import annotations

import math
import re

from shopfloor.domain.index import Hit
from shopfloor.domain.tokenizer import extract_terms, is_phrase, list_short_forms, strip_suffix
from shopfloor.search.ranking import Candidates

_STARTS_WORD = r"(?:(?<![^\W\d_])|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]))"
"""Where a word begins, in an identifier too: `Lag` of `getLag`, but not the last letters of `flag`."""

SHORT_FORM_SHARE = 0.5
"""How much a short form counts, compared with its word: `int` may stand for interest, but seldom does."""

DEFINITION_SCORE = 0.95
"""Score of the definition of the requested symbol."""

WORDS_SCORE = 0.9
"""Score of a text that contains every word of the query."""

FAR_COSINE, NEAR_COSINE = 0.2, 0.7
"""The cosine of a text that is unrelated to a query, and of one that answers it."""


class _Word:
    """A word of a query: its forms, or its short forms if the word itself is nowhere."""

    def __init__(self, term: str, count: int, rarity: float) -> None:
        self.rarity = rarity
        self._stem = strip_suffix(term)
        self._start = re.compile(f"{_STARTS_WORD}(?i:{re.escape(self._stem)})")
        short = [] if count or is_phrase(term) else list_short_forms(term)
        self._short = re.compile(rf"\b(?:{'|'.join(map(re.escape, short))})\b") if short else None

    def measure(self, text: str, lower: str) -> float:
        """Return how much of the word is in a text, which is also given in lower case."""
        # The pattern takes a hundred times as long as `in`.
        if self._stem in lower and self._start.search(text):
            return 1.0
        return SHORT_FORM_SHARE if self._short is not None and self._short.search(lower) else 0.0


class Evidence:
    """How well the results of one search match its query."""

    def __init__(self, query: str, candidates: Candidates) -> None:
        matches = candidates.by_words
        # A word that occurs nowhere counts as the rarest, so nothing answers a query of such words.
        self._words = [
            _Word(term, matches.counts.get(term, 0), math.log(2.0 + matches.chunks / (matches.counts.get(term, 0) + 1)))
            for term in extract_terms(query)
        ]
        self._whole = sum(word.rarity for word in self._words)
        self._by_words = frozenset(hit.id for hit, _ in (*matches.hits, *candidates.by_file))
        self._cosines = {hit.id: cosine for hit, cosine in candidates.by_embedding}
        self._defining = frozenset(hit.id for hit in candidates.by_symbol)

    def measure(self, hit: Hit, content: str) -> float:
        """Return a score from 0 to 1: the share of the query's words that the result has, and how near its meaning
        is."""
        text = f"{hit.ref} {hit.name} {content}"
        lower = text.lower()
        said = sum(word.rarity * word.measure(text, lower) for word in self._words)
        share = said / self._whole if self._whole else 0.0
        score = 1.0 - (1.0 - WORDS_SCORE * share) * (1.0 - self._measure_nearness(hit))
        return round(max(score, DEFINITION_SCORE if hit.id in self._defining else 0.0), 3)

    def _measure_nearness(self, hit: Hit) -> float:
        cosine = self._cosines.get(hit.id, 0.0)
        return min(1.0, max(0.0, (cosine - FAR_COSINE) / (NEAR_COSINE - FAR_COSINE)))

    def explain(self, hit: Hit) -> tuple[str, ...]:
        """Return why a result matches: definition, words, meaning."""
        found = {
            "definition": hit.id in self._defining,
            "words": hit.id in self._by_words,
            "meaning": hit.id in self._cosines,
        }
        return tuple(reason for reason, holds in found.items() if holds)
