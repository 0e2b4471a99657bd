"""Word similarity: words of similar meaning, in the files of the package and in a search."""

import hashlib
from pathlib import Path

import numpy as np

from shopfloor import Shopfloor
from shopfloor.gateways.word_vectors import DIMENSIONS, VECTORS, WORDS, load_vectors, load_vocabulary
from shopfloor.search.word_similarity import measure_similarity, pack_word_counts

WORDS_SHA256 = "e53ae1668a4691bdf6f752e13145c9d2119ad9daeb9b5aec679b4cfba14acce8"
VECTORS_SHA256 = "cf02593192174988b0cc393873400e64fb401d4561ea91bb34b9f68e4dbdeba5"


def find_paths(shopfloor: Shopfloor, query: str) -> list[str]:
    body = shopfloor.call("context", "context_search", {"query": query})
    return [result["path"] for result in body["results"]]


def test_word_vectors_are_the_ones_that_were_built():
    assert hashlib.sha256(WORDS.read_bytes()).hexdigest() == WORDS_SHA256
    assert hashlib.sha256(VECTORS.read_bytes()).hexdigest() == VECTORS_SHA256


def test_every_word_has_a_vector():
    vocabulary, vectors = load_vocabulary(), load_vectors()
    assert list(vocabulary) == sorted(set(vocabulary))
    assert vectors.shape == (len(vocabulary), DIMENSIONS)
    assert vectors.dtype == np.int8
    assert len(vocabulary) <= 1 << 16, "places are stored in two bytes"
    assert np.abs(vectors).max(axis=1).all()


def test_words_of_similar_meaning_are_near():
    vocabulary, vectors = load_vocabulary(), load_vectors().astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def measure_cosine(one: str, other: str) -> float:
        return float(unit[vocabulary[one]] @ unit[vocabulary[other]])

    for one, other in (("lock", "mutex"), ("retry", "attempt"), ("delete", "destroy"), ("compress", "gzip")):
        assert measure_cosine(one, other) > 0.5 > measure_cosine(one, "banana")


def test_text_with_words_of_similar_meaning_is_nearer():
    packed = {
        "mutex": pack_word_counts("acquire the mutex before writing"),
        "pancake": pack_word_counts("bake the pancake batter"),
    }
    found = measure_similarity(["lock"], packed)
    assert found["mutex"] == (1.0, 1.0)
    assert found["pancake"].words < 0.2
    assert found["pancake"].text < 0.2


def test_text_or_query_without_known_words_has_no_similarity():
    assert measure_similarity(["qqzzxx"], {"a": pack_word_counts("lock")}) == {}
    assert measure_similarity(["lock"], {"a": pack_word_counts("qqzzxx"), "b": b""}) == {}
    assert measure_similarity([], {}) == {}


def test_repeated_word_is_counted_up_to_a_limit():
    assert pack_word_counts("lock " * 1000)[-1] == 255
    assert pack_word_counts("getLock unlock_lock") == pack_word_counts("get lock unlock lock")


def test_file_with_words_of_similar_meaning_is_first(both: Shopfloor, project: Path):
    # By the word `file` alone, both are as good.
    (project / "src" / "alpha.py").write_text("def pancake(file):\n    return bake(file, batter)\n")
    (project / "src" / "omega.py").write_text("def acquire(file):\n    return mutex(file, latch)\n")
    assert find_paths(both, "lock a file")[0] == "src/omega.py"


def test_words_of_similar_meaning_alone_are_no_result(both: Shopfloor, project: Path):
    (project / "src" / "omega.py").write_text("def acquire(handle):\n    return mutex(handle, latch)\n")
    assert find_paths(both, "semaphore") == []
