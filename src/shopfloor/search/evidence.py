"""Evidence: how much of a query one result answers, as a number that means the same in every search."""

from __future__ import annotations

import math
import re

from shopfloor.domain.index import Hit
from shopfloor.domain.tokenizer import extract_terms, is_phrase, list_short_forms, strip_suffix
from shopfloor.search.ranking import Candidates

DEFINITION_SCORE = 0.95
"""For the definition of the symbol asked for."""

WORDS_SCORE = 0.9
"""For a text that has every word of the query."""

FAR_COSINE, NEAR_COSINE = 0.2, 0.7
"""Cosines of a text that has nothing to do with a query, and of one that answers it."""


class Evidence:
    """What speaks for the results of one search."""

    def __init__(self, query: str, candidates: Candidates) -> None:
        matches = candidates.by_words
        # A word that is nowhere counts as the rarest: a query of such words is answered by nothing.
        self._rarity = {
            self._compile(term, matches.counts.get(term, 0)): math.log(
                2.0 + matches.chunks / (matches.counts.get(term, 0) + 1)
            )
            for term in extract_terms(query)
        }
        self._by_words = frozenset(hit.id for hit, _ in (*matches.hits, *candidates.by_file))
        self._cosines = {hit.id: cosine for hit, cosine in candidates.by_embedding}
        self._defining = frozenset(hit.id for hit in candidates.by_symbol)

    def measure(self, hit: Hit, content: str) -> float:
        """Return a score from 0 to 1: the share of the query's words that the result has, and how near its meaning is."""
        text = f"{hit.ref} {hit.name} {content}".lower()
        said = sum(rarity for pattern, rarity in self._rarity.items() if pattern.search(text))
        share = said / sum(self._rarity.values()) if self._rarity else 0.0
        cosine = self._cosines.get(hit.id, 0.0)
        near = min(1.0, max(0.0, (cosine - FAR_COSINE) / (NEAR_COSINE - FAR_COSINE)))
        score = 1.0 - (1.0 - WORDS_SCORE * share) * (1.0 - near)
        return round(max(score, DEFINITION_SCORE if hit.id in self._defining else 0.0), 3)

    @staticmethod
    def _compile(term: str, count: int) -> re.Pattern[str]:
        """Return a pattern of the forms of a word, or of its short forms if the word itself is nowhere."""
        short = [] if count or is_phrase(term) else list_short_forms(term)
        return re.compile("|".join([re.escape(strip_suffix(term)), *(rf"\b{re.escape(form)}\b" for form in short)]))

    def explain(self, hit: Hit) -> tuple[str, ...]:
        """Return what speaks for a result."""
        found = {
            "definition": hit.id in self._defining,
            "words": hit.id in self._by_words,
            "meaning": hit.id in self._cosines,
        }
        return tuple(reason for reason, holds in found.items() if holds)
