"""Ranking: how what was found by words and by meaning becomes one list.

Figures are MRR@10 on a third of the tuning half of docstring → function (353 questions, 0.6425 as set). That corpus
has no tests, examples, vendored files or readers, so what is said of those is judgement, not measurement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from shopfloor.domain.index import Hit
from shopfloor.domain.places import is_aside
from shopfloor.domain.times import DAY
from shopfloor.domain.words import terms_of, words_of


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each rule counts."""

    constant: int = 10
    """The k of reciprocal rank fusion: the larger, the less the first places stand out."""
    words: float = 0.45
    vectors: float = 0.55
    called: float = 0.8
    """For the share of what a passage is called that the query says too; without it 0.5988."""
    placed: float = 0.1
    """For the share of the query's words that the file's name or the folder around it begins with; without it 0.6420."""
    symbol: float = 2.0
    """For the passage that defines the symbol that the query is."""
    company: float = 0.05
    """What the other passages of a file lend its best one; without it 0.6420."""
    again: float = 0.95
    """What each further passage of a file keeps; with a half 0.6097."""
    aside: float = 0.6
    roles: Mapping[str, float] = field(
        default_factory=lambda: {"test": 0.6, "generated": 0.4, "docs": 0.9, "config": 0.8}
    )
    written: Mapping[str, float] = field(
        default_factory=lambda: {
            "discovery": 1.6,
            "decision": 1.6,
            "session": 1.5,
            "task": 1.4,
            "comment": 1.4,
            "mail": 1.4,
        }
    )
    """For what somebody wrote down, which has no name or place to be lifted by; a little more for what was meant to last.

    Measured on commit subject → body, each body written down as one of these kinds among the code of docstring →
    function (the tuning halves of both): MRR@10 over all kinds is 0.351 with 1.0, 0.404 with 1.5 and 0.420 with 2.0,
    while code has 0.646, 0.645 and 0.645. The two are about different things, so what would not do harm there is not
    used up."""
    outdated: float = 0.5
    access: float = 0.1
    """At most, for files that are read often and lately: enough to change places with a neighbour."""
    recency: float = 0.02


WEIGHTS = Weights()

_START = 3
"""Letters that two words must share to begin alike."""
_NONE: frozenset[str] = frozenset()


class Ranked(NamedTuple):
    """A passage and what it is worth, from 0 on."""

    hit: Hit
    score: float


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known beside the query."""

    now: int
    accesses: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """How often and when each file was last read."""
    outdated: frozenset[str] = frozenset()
    """Numbers of discoveries that may no longer hold."""
    embedded: float = 1.0
    """The share of passages that have a vector. The nearest of a few are not near: they count by this share."""


def rank(
    query: str,
    by_words: Sequence[Hit],
    by_meaning: Sequence[Hit],
    defining: Sequence[Hit],
    circumstances: Circumstances,
    weights: Weights = WEIGHTS,
) -> list[Ranked]:
    """One list, best first."""
    fused = _fuse([(by_words, weights.words), (by_meaning, weights.vectors * circumstances.embedded)], weights)
    for hit in defining:
        fused[hit.id] = fused.get(hit.id, 0.0) + weights.symbol
    judge = _Judge(query, circumstances, weights)
    hits = {hit.id: hit for hits in (by_words, by_meaning, defining) for hit in hits}.values()
    return _together([(fused[hit.id] * judge.factor(hit), hit) for hit in hits], weights)


def _fuse(lists: Sequence[tuple[Sequence[Hit], float]], weights: Weights) -> dict[int, float]:
    """Reciprocal ranks, so that the best place in every list counts one."""
    given = sum(weight for hits, weight in lists if hits) or 1.0
    fused: dict[int, float] = {}
    for hits, weight in lists:
        best = weight * (weights.constant + 1) / given
        for place, hit in enumerate(hits, weights.constant + 1):
            fused[hit.id] = fused.get(hit.id, 0.0) + best / place
    return fused


class _Judge:
    """The rules for one query. What they say of a file is worked out once for all of its passages."""

    def __init__(self, query: str, circumstances: Circumstances, weights: Weights) -> None:
        self._said = _Said(terms_of(query))
        self._circumstances = circumstances
        self._weights = weights
        self._files: dict[str, tuple[float, float]] = {}
        self._names: dict[str, float] = {}

    def factor(self, hit: Hit) -> float:
        """What the rules make of a passage."""
        weights = self._weights
        if hit.source != "code":
            outdated = hit.source == "discovery" and hit.ref in self._circumstances.outdated
            return weights.written.get(hit.source, 1.0) * (weights.outdated if outdated else 1.0)
        of_file = self._files.get(hit.ref)
        if of_file is None:
            of_file = self._files[hit.ref] = self._of_file(hit), weights.placed * self._said.placed(hit.ref)
        called = self._names.get(hit.name)
        if called is None:
            called = self._names[hit.name] = weights.called * self._said.called(hit.name)
        factor, placed = of_file
        return factor * (1.0 + called + placed)

    def _of_file(self, hit: Hit) -> float:
        weights, now = self._weights, self._circumstances.now
        factor = weights.roles.get(hit.type, 1.0) * (weights.aside if is_aside(hit.ref) else 1.0)
        count, last_at = self._circumstances.accesses.get(hit.ref, (0, 0))
        if count:
            fresh = max(0.0, 1.0 - (now - last_at) / (30 * DAY))
            factor *= 1.0 + weights.access * min(1.0, count / 10) * fresh
        age = max(0, now - hit.changed_at) / (30 * DAY)
        return factor * (1.0 + weights.recency * max(0.0, 1.0 - age))


class _Said:
    """The terms of a query, and which of them a name or a place says too; each word is compared once."""

    def __init__(self, terms: Sequence[str]) -> None:
        self._count = len(terms)
        self._known: dict[str, frozenset[str]] = {}
        self._starting: dict[str, list[str]] = {}
        for term in terms:
            self._starting.setdefault(term[:_START], []).append(term)

    def called(self, name: str) -> float:
        """The share of the name's own words that the query says, beginnings included."""
        words = _words(name.rpartition(".")[2])
        return sum(1 for word in words if self._in(word)) / len(words) if words else 0.0

    def placed(self, path: str) -> float:
        """The share of the query's words that the file's name or its folder begins with."""
        *_, folder, name = ["", *path.split("/")]
        words = (*_words(name.rpartition(".")[0]), *_words(folder))
        return len(_NONE.union(*map(self._in, words))) / self._count if self._count else 0.0

    def _in(self, word: str) -> frozenset[str]:
        found = self._known.get(word)
        if found is None:
            near = self._starting.get(word[:_START], ())
            found = self._known[word] = frozenset(term for term in near if _begins(word, term))
        return found


@lru_cache(maxsize=100_000)
def _words(name: str) -> tuple[str, ...]:
    return tuple(words_of(name))


def _begins(word: str, term: str) -> bool:
    shorter = min(len(word), len(term))
    return word == term or (shorter >= _START and word[:shorter] == term[:shorter])


def _together(judged: Iterable[tuple[float, Hit]], weights: Weights) -> list[Ranked]:
    """A file's best passage is lifted by the others; each further one is worth a little less than it was."""
    by_file: dict[tuple[str, str], list[tuple[float, Hit]]] = {}
    for each in judged:
        by_file.setdefault((each[1].source, each[1].ref), []).append(each)
    ranked = []
    for scored in by_file.values():
        scored.sort(key=lambda each: (-each[0], each[1].start_line))
        rest = sum(score for score, _ in scored[1:])
        for place, (score, hit) in enumerate(scored):
            lifted = score * (1.0 + weights.company * min(1.0, rest)) if place == 0 else score * weights.again**place
            ranked.append(Ranked(hit, lifted))
    ranked.sort(key=lambda each: (-each.score, each.hit.ref, each.hit.start_line))
    return ranked


@dataclass(frozen=True, slots=True)
class Reasons:
    """Why a passage stands where it stands: its places in the two lists, counted from 1, and what the rules made of it."""

    words: int | None
    vectors: int | None
    defines: bool
    rules: float


def reasons(
    query: str,
    hit: Hit,
    by_words: Sequence[Hit],
    by_meaning: Sequence[Hit],
    defining: Sequence[Hit],
    circumstances: Circumstances,
    weights: Weights = WEIGHTS,
) -> Reasons:
    """What spoke for a passage."""
    words, vectors = (
        next((at + 1 for at, each in enumerate(hits) if each == hit), None) for hits in (by_words, by_meaning)
    )
    return Reasons(words, vectors, hit in defining, _Judge(query, circumstances, weights).factor(hit))
