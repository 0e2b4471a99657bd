"""Vectors in memory, scanned with numpy: all of them up to a hundred thousand, above that their signs first."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable

from shopfloor.gateways.arrays import Bits, Floats, Numbers, np

WHOLE = 100_000
"""Rows that are kept and compared whole."""

Vector = Floats

RESCORED = 1_000
"""Candidates by sign that are worth comparing whole."""


class Vectors:
    """The vectors of one model, in the order in which they were made."""

    def __init__(self, whole: int = WHOLE) -> None:
        self._lock = threading.Lock()
        self._whole = whole
        self.last = 0
        self.length = 0
        """Numbers in each vector; 0 while there is none."""
        self._count = 0
        self._digests: list[bytes] = []
        self._places: dict[bytes, int] = {}
        self._rows: Floats
        self._signs: Bits
        self.by_sign = False
        """Whether there are so many that only their signs are kept."""

    def __len__(self) -> int:
        return self._count

    def add(self, made: Iterable[tuple[int, bytes, bytes]]) -> None:
        """More vectors: number, digest, value. One of another length than the first is of another model, and left out."""
        with self._lock:
            unknown = [each for each in made if each[1] not in self._places]
            if not unknown:
                return
            self.last = max(self.last, unknown[-1][0])
            self.length = self.length or length_of(unknown[0][2])
            fresh = [each for each in unknown if length_of(each[2]) == self.length]
            if not fresh:
                return
            self._grow(np.stack([unpacked(value) for _, _, value in fresh]))
            for _, digest, _ in fresh:
                self._places[digest] = len(self._digests)
                self._digests.append(digest)
            self._count = len(self._digests)

    def nearest(self, query: Floats, count: int, among: Collection[bytes] | None) -> list[tuple[bytes, float]]:
        """The digests whose vectors are most like the query, best first; by sign, more of them and unsure."""
        with self._lock:
            if self._count == 0:
                return []
            places = None
            if among is not None:
                places = np.array([self._places[digest] for digest in among if digest in self._places], dtype=np.int64)
                if places.size == 0:
                    return []
            if self.by_sign:
                count = max(count, RESCORED)
                scores = self._like_signs(query, places)
            else:
                rows = self._rows[: self._count] if places is None else self._rows[places]
                scores = np.einsum("ij,j->i", rows, query)  # as fast as BLAS, which keeps all cores busy for it
            best = np.argpartition(-scores, min(count, scores.size) - 1)[:count]
            best = best[np.argsort(-scores[best], kind="stable")]
            chosen = best if places is None else places[best]
            return [(self._digests[place], float(score)) for place, score in zip(chosen, scores[best], strict=True)]

    def _grow(self, matrix: Floats) -> None:
        needed = self._count + matrix.shape[0]
        if self.by_sign or needed > self._whole:
            signs = np.packbits(matrix > 0, axis=1)
            if self._count:
                known = self._signs if self.by_sign else np.packbits(self._rows[: self._count] > 0, axis=1)
                signs = np.vstack([known, signs])
            self._signs, self._rows, self.by_sign = signs, matrix[:0], True
            return
        if not self._count or needed > self._rows.shape[0]:
            wider = np.empty((max(1024, 2 * needed), matrix.shape[1]), dtype=np.float32)
            if self._count:
                wider[: self._count] = self._rows[: self._count]
            self._rows = wider
        self._rows[self._count : needed] = matrix

    def _like_signs(self, query: Floats, places: Numbers | None) -> Floats:
        signs = np.packbits(query > 0)
        rows = self._signs if places is None else self._signs[places]
        different = np.bitwise_count(rows ^ signs).sum(axis=1, dtype=np.int32)
        like: Floats = (1.0 - 2.0 * different / query.size).astype(np.float32)
        return like


def packed(vector: Floats) -> bytes:
    """A vector as the store keeps it."""
    return vector.astype(np.float16).tobytes()


def unpacked(value: bytes) -> Floats:
    """And back."""
    return np.frombuffer(value, dtype=np.float16).astype(np.float32)


def length_of(value: bytes) -> int:
    """How many numbers a vector has, as the store keeps it."""
    return len(value) // 2
