"""Vectors in memory: nearest neighbours, exact and by signs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from shopfloor.search import vectors as module
from shopfloor.search.vectors import RESCORED_ROWS, Vectors, pack_vector, unpack_vector


def test_stored_vectors_with_other_dimensions_are_ignored():
    rows = np.eye(4, dtype=np.float32)
    vectors = Vectors()
    vectors.add(
        [(1, b"one", pack_vector(rows[0])), (2, b"odd", pack_vector(rows[0][:2])), (3, b"two", pack_vector(rows[1]))]
    )
    vectors.add([(4, b"odder", pack_vector(rows[0][:3]))])
    assert (vectors.last_id, vectors.dimensions, len(vectors)) == (4, 4, 2)
    assert [digest for digest, _ in vectors.nearest(rows[1], 2, None)] == [b"two", b"one"]


def test_nearest_by_signs_agrees_with_nearest_by_exact_vectors():
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((3000, 384)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    entries = [(number + 1, number.to_bytes(4), pack_vector(row)) for number, row in enumerate(rows)]
    exact, signs = Vectors(), Vectors(max_exact_rows=1000)
    exact.add(entries)
    for start in range(0, 3000, 700):
        signs.add(entries[start : start + 700])
    assert (exact.uses_signs, signs.uses_signs, len(signs)) == (False, True, 3000)
    query = rows[42] + 0.3 * rng.standard_normal(384).astype(np.float32) / 20
    best = [digest for digest, _ in exact.nearest(query, 5, None)]
    assert best[0] == (42).to_bytes(4)
    approximate = [digest for digest, _ in signs.nearest(query, 5, None)]
    assert (approximate[0], len(approximate)) == (best[0], RESCORED_ROWS)
    assert [d for d, _ in exact.nearest(query, 5, [(7).to_bytes(4), (42).to_bytes(4)])] == [
        (42).to_bytes(4),
        (7).to_bytes(4),
    ]
    assert exact.nearest(query, 5, [b"none"]) == []
    assert np.allclose(unpack_vector(pack_vector(rows[0])), rows[0], atol=1e-3)


@pytest.mark.parametrize("dimensions", [384, 100, 1])
def test_signs_choose_which_of_many_vectors_are_compared_exactly(monkeypatch: pytest.MonkeyPatch, dimensions: int):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((5000, dimensions)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    vectors = Vectors()
    for start, end in pairwise(range(0, 5001, 500)):
        batch = enumerate(rows[start:end], start)
        vectors.add([(number + 1, number.to_bytes(4), pack_vector(row)) for number, row in batch])
    exact = vectors.nearest(rows[42], 3, None)
    monkeypatch.setattr(module, "MIN_SIGNED_ROWS", 1000)
    assert vectors.nearest(rows[42], 3, None)[0][1] == pytest.approx(exact[0][1])
    assert len(vectors.nearest(rows[42], 5000, None)) == 5000
    among = [number.to_bytes(4) for number in range(40, 3000)]
    nearest = vectors.nearest(rows[42], 5, among)
    assert nearest[0][1] == pytest.approx(exact[0][1])
    assert {digest for digest, _ in nearest} <= set(among)


def test_vectors_of_100_000_files_stay_in_memory_with_the_bits_that_are_stored():
    rows = np.random.default_rng(5).standard_normal((120_000, 8)).astype(np.float16)
    vectors = Vectors()
    for start in range(0, len(rows), 30_000):
        values = enumerate(rows[start : start + 30_000], start)
        vectors.add([(number + 1, number.to_bytes(4), value.tobytes()) for number, value in values])
    assert (len(vectors), vectors.uses_signs) == (120_000, False)
    query = rows[42].astype(np.float32)
    places = [7, 42, 100_000]
    cosines = vectors.cosines(query, [place.to_bytes(4) for place in places])
    assert cosines == {
        place.to_bytes(4): pytest.approx(float(rows[place].astype(np.float32) @ query)) for place in places
    }
    assert vectors._rows.dtype == np.float16
    among = [place.to_bytes(4) for place in places]
    assert vectors.nearest(query, 3, among)[0][0] == (42).to_bytes(4)
