"""Vectors in memory, compared with numpy: exactly up to 100,000 of them, above that by their signs first."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# numpy takes 0.1 s to import. A server is ready, and a command answers, before the first search needs it.
Floats: TypeAlias = "NDArray[np.float32]"
Bits: TypeAlias = "NDArray[np.uint8]"

MAX_EXACT_ROWS = 100_000
"""Vectors that are compared exactly. 384 dimensions take 150 MB; their signs take a 32nd of that."""

Vector = Floats

RESCORED_ROWS = 1_000
"""The nearest by sign among which the caller finds the nearest exactly."""

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
        self._rows: Floats
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
            if self.uses_signs:
                count = max(count, RESCORED_ROWS)
                bits = self._signs if places is None else self._signs[places]
                # The share of equal signs, scaled from -1 to 1 as a cosine is.
                different = np.bitwise_count(bits ^ np.packbits(query > 0)).sum(axis=1, dtype=np.int32)
                scores = (1.0 - 2.0 * different / query.size).astype(np.float32)
            else:
                # Not `rows @ query`: BLAS is no faster here, and kept every core spinning for 2 ms of work.
                rows = self._rows[: self._count] if places is None else self._rows[places]
                scores = np.einsum("ij,j->i", rows, query)
            # Only the best few are sorted: sorting every score would cost more than computing them.
            best = np.argpartition(-scores, min(count, scores.size) - 1)[:count]
            best = best[np.argsort(-scores[best], kind="stable")]
            chosen = best if places is None else places[best]
            return [(self._digests[place], float(score)) for place, score in zip(chosen, scores[best], strict=True)]

    def cosines(self, query: Floats, digests: Sequence[bytes]) -> dict[bytes, float]:
        """Return the cosines of those texts that have a vector in memory; none if only signs are."""
        with self._lock:
            known = [digest for digest in digests if digest in self._places]
            if not known or self.uses_signs:
                return {}
            rows = self._rows[[self._places[digest] for digest in known]]
            return dict(zip(known, (rows * query).sum(axis=1).tolist(), strict=True))

    def _grow(self, matrix: Floats) -> None:
        import numpy as np  # noqa: PLC0415

        needed = self._count + matrix.shape[0]
        if self.uses_signs or needed > self._max_exact_rows:
            signs = np.packbits(matrix > 0, axis=1)
            if self._count:
                known = self._signs if self.uses_signs else np.packbits(self._rows[: self._count] > 0, axis=1)
                signs = np.vstack([known, signs])
            self._signs, self._rows, self.uses_signs = signs, matrix[:0], True
            return
        if not self._count or needed > self._rows.shape[0]:
            # Doubled, so that adding one batch after the other copies each row a few times and not each time.
            larger = np.empty((max(MIN_ALLOCATED_ROWS, 2 * needed), matrix.shape[1]), dtype=np.float32)
            if self._count:
                larger[: self._count] = self._rows[: self._count]
            self._rows = larger
        self._rows[self._count : needed] = matrix


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
