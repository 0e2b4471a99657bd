"""Word similarity: how near the words of a file are to those of a query in meaning.

The index stores how often each word with a vector occurs in each file. A search compares only its candidates, at most a
few hundred files, so the index needs no vectors, and a word that most candidates contain counts little.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from shopfloor.domain.tokenizer import count_words
from shopfloor.gateways.word_vectors import load_vectors, load_vocabulary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Floats: TypeAlias = "NDArray[np.float32]"
Integers: TypeAlias = "NDArray[np.int64]"

MAX_COUNT = 255

MIN_COSINE = 0.5
"""Words with a lower cosine count as unrelated. Any value from 0.4 to 0.7 gives the same gain."""

COSINE_SPAN = 0.4
"""How far below the best cosine a text still counts, as for embeddings."""


class Similarity(NamedTuple):
    """How near one text is to a query, from 0 to 1, relative to the nearest text."""

    words: float
    """The sum, over the words of the query, of how near the nearest word of the text is."""
    text: float
    """How near the words of the text together are."""


def pack_word_counts(text: str) -> bytes:
    """Count the words of a text that have a vector, and return the counts in the form that the index stores."""
    vocabulary = load_vocabulary()
    counts = {vocabulary[word]: count for word, count in count_words(text).items() if word in vocabulary}
    size = len(counts)
    return struct.pack(f"<{size}H{size}B", *counts, *(min(count, MAX_COUNT) for count in counts.values()))


def measure_similarity(terms: Sequence[str], packed: Mapping[str, bytes]) -> dict[str, Similarity]:
    """Compare texts, given by their packed word counts by path, with the terms of a query."""
    vocabulary = load_vocabulary()
    asked = [vocabulary[term] for term in terms if term in vocabulary]
    texts = {path: value for path, value in packed.items() if value}
    if not asked or not texts:
        return {}
    words, near = _measure_texts(asked, list(texts.values()))
    return {path: Similarity(*each) for path, each in zip(texts, zip(words, near, strict=True), strict=True)}


def _measure_texts(asked: Sequence[int], packed: Sequence[bytes]) -> tuple[list[float], list[float]]:
    """Return how near the words of each text are to the query, and how near each text is as a whole."""
    import numpy as np  # noqa: PLC0415 - as in vectors.py

    sizes = np.array([len(value) // 3 for value in packed])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    ids = np.concatenate([np.frombuffer(value, "<u2", len(value) // 3) for value in packed])
    counts = np.concatenate([np.frombuffer(value, np.uint8, offset=len(value) // 3 * 2) for value in packed])
    frequency: Floats = np.log1p(counts.astype(np.float32))

    vectors = load_vectors()
    texts_with = np.bincount(ids, minlength=len(vectors))
    known = np.flatnonzero(texts_with)
    places = np.zeros(len(vectors), dtype=np.int64)
    places[known] = np.arange(known.size)
    rows, at = _normalize(vectors[known].astype(np.float32)), places[ids]
    rarity = _measure_rarity(texts_with, len(packed)).astype(np.float32)

    query = _normalize(vectors[asked].astype(np.float32))
    words = _measure_words(query, rows, at, starts, ((1.0 + frequency) / 2.0).astype(np.float32))
    texts = _normalize(_sum_words(rows, at, starts, frequency * rarity[ids]))
    # What all texts have in common does not distinguish them.
    texts = _normalize(texts - texts.mean(axis=0))
    cosines = (texts * _normalize(rarity[asked] @ query)).sum(axis=1)
    near = np.maximum(0.0, 1.0 - (cosines.max() - cosines) / COSINE_SPAN)
    return words.tolist(), near.tolist()


def _sum_words(rows: Floats, at: Integers, starts: Integers, weights: Floats) -> Floats:
    """Return the sum of the vectors of each text's words."""
    import numpy as np  # noqa: PLC0415

    summed = np.empty((starts.size, rows.shape[1]), dtype=np.float32)
    # One text at a time stays in the cache of the core: `np.add.reduceat` over all takes four times as long.
    for place, (start, end) in enumerate(zip(starts, [*starts[1:], at.size], strict=True)):
        np.einsum("i,ij->j", weights[start:end], rows[at[start:end]], out=summed[place])
    return summed


def _measure_words(query: Floats, rows: Floats, at: Integers, starts: Integers, shares: Floats) -> Floats:
    """Return, for each text and relative to the best one, the sum over the query's words of nearness times rarity."""
    import numpy as np  # noqa: PLC0415

    # Not `rows @ query.T`: BLAS would keep every core spinning; see vectors.py.
    cosines = np.einsum("ij,kj->ki", rows, query)
    nearness = np.clip((cosines - MIN_COSINE) / (1.0 - MIN_COSINE), 0.0, 1.0)
    found = np.zeros(starts.size, dtype=np.float32)
    for near in nearness:
        best = np.maximum.reduceat(near[at] * shares, starts)
        found += best * _measure_rarity(np.minimum(best.sum(), starts.size), starts.size)
    highest = found.max()
    return found / highest if highest > 0 else found


def _measure_rarity(count: Floats | Integers, texts: int) -> Floats:
    import numpy as np  # noqa: PLC0415

    rarity: Floats = np.log(1.0 + (texts - count + 0.5) / (count + 0.5))
    return rarity


def _normalize(rows: Floats) -> Floats:
    import numpy as np  # noqa: PLC0415

    # A quarter of the time of `np.linalg.norm`.
    lengths = np.sqrt(np.einsum("...j,...j->...", rows, rows))
    normalized: Floats = rows / np.maximum(lengths, 1e-9)[..., np.newaxis]
    return normalized
