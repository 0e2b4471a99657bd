"""Ranking: merge what was found by words, by embedding and by name into one list.

Files are ranked first, then the chunks within each file. A file gets a score from all of its candidates; its chunks are
ordered by their own scores. The weights are tuned on the tuning half of the code search questions
(`python -m bench.code_search --ablation`); docs/context.md has the gain of each rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from shopfloor.domain.chunks import OVERVIEW
from shopfloor.domain.file_kinds import is_declaration_file, is_low_priority, is_reexport
from shopfloor.domain.index import Hit, WordMatches
from shopfloor.domain.times import DAY
from shopfloor.domain.tokenizer import (
    extract_terms,
    find_symbol,
    is_phrase,
    share_stem,
    split_words,
)
from shopfloor.search.word_similarity import Similarity

RECENT_PERIOD = 30 * DAY
"""How long a change or an access counts as recent. It counts less each day."""

FREQUENT_ACCESSES = 10
"""Number of accesses that makes a file count as read often."""

EXPLANATION = re.compile(r"\s*(?:how|explain|describe)\b", re.IGNORECASE)
"""The beginning of a query that asks how something works."""

SYMBOL_SEPARATORS = re.compile(r"\.|::|#|->")


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of each rule, relative to the best chunk by words, which has 1.

    They are for names, and for questions how something works, which use words of the code. Other questions often say
    what code does in other words: `lookup` has their factors.
    """

    words: float = 1.0
    """The file's best chunk by words, relative to the best of all files."""
    siblings: float = 1.0
    """All chunks of the file among the best by words, each by its rank, relative to the best file."""
    file_words: float = 1.2
    """The words of the whole file (name, path, the names in it, the rest), relative to the best file."""
    overview: float = 2.3
    """Each embedding of the file's two overviews, relative to the nearest of all files."""
    embedding: float = 1.8
    """The nearest embedding of a chunk or document, multiplied by the share of chunks that are embedded."""
    similar_words: float = 1.0
    """For each word of the query, the word of the file that is nearest in meaning."""
    similar_text: float = 1.0
    """How near all words of the file together are to the query."""
    file_name: float = 0.6
    """The share of the query that is in the file's name. Rare words count more."""
    folder: float = 0.3
    """The share of the query that is in the folder's name but not in the file's."""
    file_name_share: float = 0.2
    """The share of the words in the file's name that are in the query."""
    name: float = 0.6
    """A chunk whose name is in the query: the share of the query times the share of the name."""
    definition: float = 2.0
    """A function or class whose name is the requested symbol."""
    assignment: float = 1.8
    """A constant, field or setting whose name is the requested symbol."""
    same_name: float = 0.5
    """A file with the same name as the requested symbol."""
    mentioned: float = 0.5
    """The definition of an identifier inside a sentence."""
    repeat: float = 0.5
    """The factor of each further chunk of a file."""
    low_priority: float = 0.6
    """The factor of examples, benchmarks, vendored and legacy code."""
    reexport: float = 0.8
    """The factor of files such as __init__.py and index.ts, which mostly re-export names."""
    declarations: float = 0.8
    """The factor of .d.ts and .pyi files, which declare what other files define."""
    lookup: Mapping[str, float] = field(
        default_factory=lambda: {
            "siblings": 0.6,
            "file_words": 1.25,
            "overview": 1.75,
            "embedding": 1.75,
            "similar_words": 1.3,
            "similar_text": 1.3,
        }
    )
    """The factors of rules for a question that does not ask how something works: "where is …", "retry failed uploads"."""
    roles: Mapping[str, float] = field(
        default_factory=lambda: {"test": 0.4, "generated": 0.5, "docs": 0.4, "config": 0.7}
    )
    documents: Mapping[str, float] = field(
        default_factory=lambda: {
            "discovery": 1.2,
            "decision": 1.2,
            "session": 1.1,
            "task": 1.0,
            "comment": 1.0,
            "mail": 1.0,
        }
    )
    """The factors of documents, which have no name or path to match. Lasting ones, such as decisions, have a little
    more."""
    outdated: float = 0.5
    access: float = 0.1
    """The largest bonus of a file that is read often and recently: enough to overtake a neighbour."""
    recency: float = 0.02

    def for_lookup(self) -> Weights:
        """Return the weights for a question that does not ask how something works."""
        return replace(self, **{rule: getattr(self, rule) * factor for rule, factor in self.lookup.items()})


WEIGHTS = Weights()

COSINE_SPAN = 0.4
"""How far below the best cosine an embedding still counts. A span up to the 200th nearest embedding shrank as projects
grew, and small differences counted more: fused NDCG@10 of questions was 0.782, and is 0.785 with a fixed span."""

FUSION_CONSTANT = 20
"""The k in the reciprocal ranks that `siblings` adds up. With a larger k, the first ranks stand out less."""


class Ranked(NamedTuple):
    """A chunk and its score, which is 0 or more."""

    hit: Hit
    score: float


@dataclass(frozen=True, slots=True)
class Signals:
    """What the ranking knows besides the query."""

    now: int
    accesses: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """How often each file was read, and when last."""
    outdated: frozenset[str] = frozenset()
    overview_share: float = 1.0
    """The share of files that have an embedding. The nearest of only a few is not near, so embeddings are multiplied
    by it."""
    embedded_share: float = 1.0
    """The share of chunks that have an embedding."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What one search found."""

    by_words: WordMatches
    by_file: Sequence[tuple[Hit, float]]
    """Overviews of files that have words of the query, each with its score, best first."""
    by_embedding: Sequence[tuple[Hit, float]]
    """Chunks and documents with their cosines, nearest first."""
    by_symbol: Sequence[Hit]
    """Chunks that define the symbol in the query, or symbols that it mentions."""
    signals: Signals
    similarity: Mapping[str, Similarity] = field(default_factory=dict)
    """How near the words of each file are to the query, by path."""


def rank(query: str, candidates: Candidates, weights: Weights = WEIGHTS) -> list[Ranked]:
    """Merge the candidates into one list, best first."""
    ranking = _Ranking(query, candidates, weights)
    ranked = [
        ranked
        for (source, ref), hits in _group_by_file(candidates).items()
        for ranked in (ranking.rank_file(ref, hits) if source == "code" else ranking.rank_documents(hits))
    ]
    ranked.sort(key=lambda each: (-each.score, each.hit.ref, each.hit.start_line))
    return ranked


def _group_by_file(candidates: Candidates) -> dict[tuple[str, str], list[Hit]]:
    lists = (
        candidates.by_words.hits,
        candidates.by_file,
        candidates.by_embedding,
        [(hit, 0.0) for hit in candidates.by_symbol],
    )
    hits = {hit.id: hit for found in lists for hit, _ in found}
    files: dict[tuple[str, str], list[Hit]] = {}
    for hit in hits.values():
        files.setdefault((hit.source, hit.ref), []).append(hit)
    return files


class _Ranking:
    """The rules for one query."""

    def __init__(self, query: str, candidates: Candidates, weights: Weights) -> None:
        symbol = find_symbol(query)
        self._weights = weights if symbol or EXPLANATION.match(query) else weights.for_lookup()
        self._signals = candidates.signals
        self._terms = QueryTerms(extract_terms(query), candidates.by_words)
        self._asked = SYMBOL_SEPARATORS.sub(".", symbol) if symbol else ""
        self._defining = frozenset(hit.id for hit in candidates.by_symbol)
        words = candidates.by_words.hits
        best = words[0][1] if words else 1.0
        self._words = {hit.id: score / best if best > 0 else 0.0 for hit, score in words}
        best = candidates.by_file[0][1] if candidates.by_file else 1.0
        self._files = {hit.ref: score / best if best > 0 else 0.0 for hit, score in candidates.by_file}
        siblings: dict[tuple[str, str], float] = {}
        for place, (hit, _) in enumerate(words):
            key = hit.source, hit.ref
            siblings[key] = siblings.get(key, 0.0) + (FUSION_CONSTANT + 1) / (FUSION_CONSTANT + 1 + place)
        most = max(siblings.values(), default=1.0)
        self._siblings = {key: value / most for key, value in siblings.items()}
        # A symbol is found by its name. The embedding of a single word is near to almost anything.
        near = [] if symbol and self._defining else candidates.by_embedding
        self._similarity = candidates.similarity
        nearest = max((cosine for _, cosine in near), default=0.0)
        self._near = {hit.id: max(0.0, 1.0 - (nearest - cosine) / COSINE_SPAN) for hit, cosine in near}

    def rank_file(self, ref: str, hits: Sequence[Hit]) -> list[Ranked]:
        """Return the chunks of a file with their scores."""
        weights, signals, terms = self._weights, self._signals, self._terms
        file = weights.siblings * self._siblings.get(("code", ref), 0.0)
        file += weights.file_words * self._files.get(ref, 0.0) + self._score_similarity(ref)
        words = near = overview = 0.0
        scored = []
        for hit in hits:
            by_words = weights.words * self._words.get(hit.id, 0.0)
            by_embedding = self._near.get(hit.id, 0.0)
            if hit.kind == OVERVIEW:
                overview += weights.overview * by_embedding * signals.overview_share
                scored.append((0.0, hit))
                continue
            by_name = by_words * weights.name * terms.match_name(hit.symbol) if by_words and hit.name else 0.0
            defines = self._score_definition(hit) if hit.id in self._defining else 0.0
            by_embedding *= weights.embedding * signals.embedded_share
            words, near = max(words, by_words + by_name + defines), max(near, by_embedding)
            scored.append((by_words + by_name + defines + by_embedding, hit))
        file += words + near + overview
        in_name, in_folder, name_share = terms.match_path(ref)
        file += weights.file_name * in_name + weights.folder * in_folder + weights.file_name_share * name_share
        if self._asked and _fold(_stem_of(ref)) == _fold(self._asked.rpartition(".")[2]):
            file += weights.same_name
        file *= self._file_factor(hits[0])
        # The overview is shown if no chunk was found. Ties keep the order of the file.
        shown = [each for each in scored if each[1].kind != OVERVIEW] or scored[:1]
        if len(shown) > 1:
            shown.sort(key=lambda each: (-each[0], each[1].start_line))
        return [Ranked(hit, file * weights.repeat**place) for place, (_, hit) in enumerate(shown)]

    def rank_documents(self, hits: Sequence[Hit]) -> Iterable[Ranked]:
        """Yield documents, each ranked by itself."""
        weights = self._weights
        for hit in hits:
            words = self._words.get(hit.id, 0.0)
            # A document is a single chunk, so it gets the weights of a chunk and of a file at once. The meaning of its
            # words is not compared: files, which are longer, would rank above documents.
            score = (weights.words + weights.siblings + weights.file_words) * words
            if self._similarity:
                score += (weights.similar_words + weights.similar_text) * words
            near = self._near.get(hit.id, 0.0) * self._signals.overview_share
            score += (weights.overview + weights.embedding) * near
            outdated = hit.source == "discovery" and hit.ref in self._signals.outdated
            yield Ranked(hit, score * weights.documents.get(hit.source, 1.0) * (weights.outdated if outdated else 1.0))

    def _score_similarity(self, path: str) -> float:
        near = self._similarity.get(path)
        if near is None:
            return 0.0
        return self._weights.similar_words * near.words + self._weights.similar_text * near.text

    def _score_definition(self, hit: Hit) -> float:
        weights = self._weights
        if not self._asked:
            return weights.mentioned
        if hit.symbol.lower() != self._asked.rpartition(".")[2].lower():
            return weights.assignment
        # For the query `Response.json`, `Response.json` ranks before `Request.json`; for `iter`, `iter` before `Iter`.
        same_owner = hit.name == self._asked or hit.name.endswith(f".{self._asked}")
        return weights.definition * (1.0 if same_owner else 0.7)

    def _file_factor(self, hit: Hit) -> float:
        weights, now, path = self._weights, self._signals.now, hit.ref
        factor = weights.roles.get(hit.type, 1.0)
        factor *= weights.low_priority if is_low_priority(path) else 1.0
        factor *= weights.reexport if is_reexport(path) else 1.0
        factor *= weights.declarations if is_declaration_file(path) else 1.0
        count, last_at = self._signals.accesses.get(path, (0, 0))
        if count:
            recent = max(0.0, 1.0 - (now - last_at) / RECENT_PERIOD)
            factor *= 1.0 + weights.access * min(1.0, count / FREQUENT_ACCESSES) * recent
        age = max(0, now - hit.changed_at) / RECENT_PERIOD
        return factor * (1.0 + weights.recency * max(0.0, 1.0 - age))


_NO_TERMS = frozenset[str]()


class QueryTerms:
    """The terms of a query and their rarity, and which of them occur in a name or a path."""

    def __init__(self, terms: Sequence[str], matches: WordMatches) -> None:
        self._rarity = {
            term: math.log(1.0 + (matches.chunks - count + 0.5) / (count + 0.5))
            for term in terms
            if (count := matches.counts.get(term, 0)) and not is_phrase(term)
        }
        self._total = sum(self._rarity.values())
        self._known: dict[str, frozenset[str]] = {}
        self._known_folders: dict[tuple[str, ...], frozenset[str]] = {}

    def match_name(self, name: str) -> float:
        """Return the share of the query that is in a name, times the share of the name that is in the query."""
        words = _split_name(name)
        said = [self._match(word) for word in words]
        if not any(said):
            return 0.0
        return self._weigh(frozenset().union(*said)) * sum(map(bool, said)) / len(words)

    def match_path(self, path: str) -> tuple[float, float, float]:
        """Return the share of the query in a file's name, the further share in its folder, and the share of the name
        that is in the query."""
        name, folder = _split_path(path)
        said = [terms for word in name if (terms := self._match(word))]
        in_name = frozenset[str]().union(*said) if said else _NO_TERMS
        # Many files share a folder.
        in_folder = self._known_folders.get(folder)
        if in_folder is None:
            in_folder = self._known_folders[folder] = frozenset[str]().union(*map(self._match, folder))
        in_folder -= in_name
        return self._weigh(in_name), self._weigh(in_folder), len(said) / len(name) if name else 0.0

    def _weigh(self, terms: frozenset[str]) -> float:
        return sum(self._rarity[term] for term in terms) / self._total if terms else 0.0

    def _match(self, word: str) -> frozenset[str]:
        found = self._known.get(word)
        if found is None:
            found = self._known[word] = frozenset(term for term in self._rarity if share_stem(word, term))
        return found


@lru_cache(maxsize=100_000)
def _split_name(name: str) -> tuple[str, ...]:
    return tuple(split_words(name))


def _stem_of(path: str) -> str:
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name


@lru_cache(maxsize=100_000)
def _split_path(path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of a file's name and of its folder."""
    folder = path.rpartition("/")[0].rpartition("/")[2]
    return _split_name(_stem_of(path)), _split_name(folder)


def _fold(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


@dataclass(frozen=True, slots=True)
class Reasons:
    """Why a chunk has its rank: its place in each list, counted from 1, and whether it defines the symbol."""

    words: int | None
    embeddings: int | None
    defines: bool
    rules: float
    """The factor of the file's role, such as test."""


def explain_rank(query: str, hit: Hit, candidates: Candidates, weights: Weights = WEIGHTS) -> Reasons:
    """Return why a chunk has its rank."""
    by_words = candidates.by_file if hit.kind == OVERVIEW else candidates.by_words.hits
    words, embeddings = (
        next((place for place, (each, _) in enumerate(hits, 1) if each == hit), None)
        for hits in (by_words, candidates.by_embedding)
    )
    factor = _Ranking(query, candidates, weights)._file_factor(hit) if hit.source == "code" else 1.0
    return Reasons(words, embeddings, hit in candidates.by_symbol, factor)
