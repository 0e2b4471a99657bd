"""Vectors of words, which are near for words of similar meaning in code: `lock` and `mutex`, `retry` and `attempt`.

They are distilled from a model for code and reduced: see `data/NOTICE` and `scripts/build_word_vectors.py`.
The files are part of the package. They are read on first use, and the vectors are mapped into memory.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vectors: TypeAlias = "NDArray[np.int8]"

FOLDER = Path(__file__).parent / "data"
WORDS = FOLDER / "word_vectors.txt"
VECTORS = FOLDER / "word_vectors.npy"

DIMENSIONS = 112
"""On the tuning half of the code search questions, 128 dimensions are as good as all 768."""


@lru_cache(maxsize=1)
def load_vocabulary() -> dict[str, int]:
    """Return the words that have a vector, each with the place of its vector."""
    words = WORDS.read_text(encoding="ascii").split("\n")
    return {word: place for place, word in enumerate(words[:-1])}


@lru_cache(maxsize=1)
def load_vectors() -> Vectors:
    """Return the vectors, one row for each word. Their lengths differ."""
    import numpy as np  # noqa: PLC0415 - as in search/vectors.py

    vectors: Vectors = np.load(VECTORS, mmap_mode="r", allow_pickle=False)
    return vectors
