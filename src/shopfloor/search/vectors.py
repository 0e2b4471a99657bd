"""Vectors in memory, compared with numpy: exactly up to 20,000 of them, above that by their signs first."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# numpy takes 0.1 s to import. A server is ready, and a command answers, before the first search needs it.
Floats: TypeAlias = "NDArray[np.float32]"
Halves: TypeAlias = "NDArray[np.float16]"
Bits: TypeAlias = "NDArray[np.uint64]"
Places: TypeAlias = "NDArray[np.int64]"

MAX_EXACT_ROWS = 250_000
"""Vectors that are in memory whole, such as the two overviews of 100,000 files. With 384 dimensions of 16 bits they take
192 MB; their signs take a 16th of that. To load the nearest 1,000 from the store took half of a search."""

Vector = Floats

RESCORED_ROWS = 1_000
"""The nearest by sign among which the caller finds the nearest exactly."""

MIN_SIGNED_ROWS = 20_000
"""Vectors above which signs decide which of them are compared exactly: 100,000 took 20 ms of CPU, and take 3."""

COMPARED_ROWS = 2_000
"""The nearest by sign that are then compared exactly, while the vectors are in memory. Of the 200 nearest to a question
among 11,000 real embeddings they have 97.6 %, and 91.4 % with half as many. Of the 20 nearest it is 99.97 and 99.6 %."""

MIN_ALLOCATED_ROWS = 1024


class Vectors:
    """The vectors of one model, by the digest of their text."""

    def __init__(self, max_exact_rows: int = MAX_EXACT_ROWS) -> None:
        self._lock = threading.Lock()
        self._max_exact_rows = max_exact_rows
        self.last_id = 0
        self.dimensions = 0
        """0 while there is no vector."""
        self._count = 0
        self._digests: list[bytes] = []
        self._places: dict[bytes, int] = {}
        self._rows: Floats | Halves
        """With 16 bits per dimension, as they are stored, above MIN_SIGNED_ROWS: up to there, each search compares all
        of them, and would convert them first."""
        self._signs: Bits
        self.uses_signs = False
        """True above `max_exact_rows`: then only signs are in memory."""

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Iterable[tuple[int, bytes, bytes]]) -> None:
        """Add vectors as id, digest and value. One with other dimensions than the first is another model's, and skipped."""
        import numpy as np  # noqa: PLC0415

        with self._lock:
            unknown = [each for each in rows if each[1] not in self._places]
            if not unknown:
                return
            self.last_id = max(self.last_id, unknown[-1][0])
            self.dimensions = self.dimensions or count_dimensions(unknown[0][2])
            fresh = [each for each in unknown if count_dimensions(each[2]) == self.dimensions]
            if not fresh:
                return
            self._grow(np.stack([unpack_vector(value) for _, _, value in fresh]))
            for _, digest, _ in fresh:
                self._places[digest] = len(self._digests)
                self._digests.append(digest)
            self._count = len(self._digests)

    def nearest(self, query: Floats, count: int, among: Collection[bytes] | None) -> list[tuple[bytes, float]]:
        """Return the digests nearest to the query, best first; by sign, more of them and not in their exact order."""
        import numpy as np  # noqa: PLC0415

        with self._lock:
            if self._count == 0:
                return []
            places = None
            if among is not None:
                places = np.array([self._places[digest] for digest in among if digest in self._places], dtype=np.int64)
                if places.size == 0:
                    return []
            size = self._count if places is None else places.size
            if self.uses_signs:
                best, scores = self._nearest_by_sign(query, max(count, RESCORED_ROWS), places)
                chosen = best if places is None else places[best]
            else:
                if size > MIN_SIGNED_ROWS:
                    best, _ = self._nearest_by_sign(query, max(count, COMPARED_ROWS), places)
                    places = best if places is None else places[best]
                # Not `rows @ query`: BLAS is no faster here, and kept every core spinning for 2 ms of work.
                rows = _widen(self._rows[: self._count] if places is None else self._rows[places])
                scores = np.einsum("ij,j->i", rows, query)
                # Only the best few are sorted: sorting every score would cost more than computing them.
                best = np.argpartition(-scores, min(count, scores.size) - 1)[:count]
                best = best[np.argsort(-scores[best], kind="stable")]
                scores = scores[best]
                chosen = best if places is None else places[best]
            return [(self._digests[place], score) for place, score in zip(chosen, scores.tolist(), strict=True)]

    def _nearest_by_sign(self, query: Floats, count: int, places: Places | None) -> tuple[Places, Floats]:
        """Return the places of the vectors with most signs of the query, and the share of them as a cosine."""
        import numpy as np  # noqa: PLC0415

        signs = self._signs[:, : self._count] if places is None else self._signs[:, places]
        different = np.zeros(signs.shape[1], dtype=np.uint16)
        for row, bits in zip(signs, _pack_signs(query[np.newaxis])[:, 0], strict=True):
            different += np.bitwise_count(row ^ bits)
        # There are few distances, so counting them finds the largest that is needed in a third of the time of a sort.
        farthest = int(np.searchsorted(np.cumsum(np.bincount(different)), min(count, different.size)))
        best = np.flatnonzero(different <= farthest)
        best = best[np.argsort(different[best], kind="stable")][:count]
        return best, (1.0 - 2.0 * different[best] / query.size).astype(np.float32)

    def cosines(self, query: Floats, digests: Sequence[bytes]) -> dict[bytes, float]:
        """Return the cosines of those texts that have a vector in memory; none if only signs are."""
        with self._lock:
            known = [digest for digest in digests if digest in self._places]
            if not known or self.uses_signs:
                return {}
            rows = _widen(self._rows[[self._places[digest] for digest in known]])
            return dict(zip(known, (rows * query).sum(axis=1).tolist(), strict=True))

    def _grow(self, matrix: Floats) -> None:
        import numpy as np  # noqa: PLC0415

        needed = self._count + matrix.shape[0]
        # Doubled, so that adding one batch after the other copies each row a few times and not each time.
        signs = _pack_signs(matrix)
        if not self._count or needed > self._signs.shape[1]:
            larger = np.empty((signs.shape[0], max(MIN_ALLOCATED_ROWS, 2 * needed)), dtype=np.uint64)
            if self._count:
                larger[:, : self._count] = self._signs[:, : self._count]
            self._signs = larger
        self._signs[:, self._count : needed] = signs
        if self.uses_signs or needed > self._max_exact_rows:
            self._rows, self.uses_signs = matrix[:0], True
            return
        dtype = np.float16 if needed > MIN_SIGNED_ROWS else np.float32
        if not self._count or needed > self._rows.shape[0] or dtype != self._rows.dtype:
            rows = np.empty((max(MIN_ALLOCATED_ROWS, 2 * needed), matrix.shape[1]), dtype=dtype)
            if self._count:
                rows[: self._count] = self._rows[: self._count]
            self._rows = rows
        self._rows[self._count : needed] = matrix


def _widen(rows: Floats | Halves) -> Floats:
    """Return rows with 32 bits per dimension."""
    widened: Floats = rows.astype("float32", copy=False)
    return widened


def _pack_signs(matrix: Floats) -> Bits:
    """Return the signs of vectors, one column for each, in words of 64 bits.

    Bits of one row beside each other took five times as long to compare.
    """
    import numpy as np  # noqa: PLC0415

    bits = np.packbits(matrix > 0, axis=1)
    padded = np.zeros((bits.shape[0], -(-bits.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(padded.view(np.uint64).T)


def pack_vector(vector: Floats) -> bytes:
    """Return a vector in the form in which it is stored, with 16 bits per dimension."""
    import numpy as np  # noqa: PLC0415

    return vector.astype(np.float16).tobytes()


def unpack_vector(value: bytes) -> Floats:
    """Return a stored vector."""
    import numpy as np  # noqa: PLC0415

    return np.frombuffer(value, dtype=np.float16).astype(np.float32)


def unpack_vectors(values: Sequence[bytes]) -> Floats:
    """Return stored vectors of one model as rows. To unpack each alone takes ten times as long."""
    import numpy as np  # noqa: PLC0415

    return np.frombuffer(b"".join(values), dtype=np.float16).reshape(len(values), -1).astype(np.float32)


def count_dimensions(value: bytes) -> int:
    """Count the dimensions of a stored vector."""
    return len(value) // 2
