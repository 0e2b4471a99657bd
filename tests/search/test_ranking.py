"""Ranking: one list out of what was found by words, by whole files, by embedding and by name."""

from __future__ import annotations

from shopfloor.domain.chunks import OVERVIEW
from shopfloor.domain.index import Hit, WordMatches
from shopfloor.search.ranking import Candidates, Signals, explain_rank, rank
from shopfloor.search.word_similarity import Similarity


def make_hit(id: int, path: str, kind: str = "function") -> Hit:
    return Hit(id, "", "code", path, "core", kind, None, "", id, id, 0, b"")


CHUNKS = ((make_hit(1, "a.py"), 2.0), (make_hit(2, "b.py"), 1.9))
OVERVIEWS = ((make_hit(3, "b.py", OVERVIEW), 3.0), (make_hit(4, "c.py", OVERVIEW), 1.0))


def candidates(by_file: tuple[tuple[Hit, float], ...]) -> Candidates:
    return Candidates(WordMatches(CHUNKS, {"ledger": 2}, 10), by_file, (), (), Signals(0))


def test_file_whose_names_and_comments_have_the_words_overtakes_a_slightly_better_chunk():
    assert [ranked.hit.ref for ranked in rank("ledger", candidates(()))] == ["a.py", "b.py"]
    assert [ranked.hit.ref for ranked in rank("ledger", candidates(OVERVIEWS))] == ["b.py", "a.py", "c.py"]


def test_overview_is_a_result_only_if_no_chunk_of_its_file_is():
    assert [ranked.hit.id for ranked in rank("ledger", candidates(OVERVIEWS))] == [2, 1, 4]


def test_place_of_an_overview_is_its_place_among_files():
    reasons = explain_rank("ledger", OVERVIEWS[1][0], candidates(OVERVIEWS))
    assert (reasons.words, reasons.embeddings, reasons.defines) == (2, None, False)


def rank_by_embedding(query: str, cosines: dict[str, float]) -> list[str]:
    near = [(make_hit(10 + place, path, OVERVIEW), cosine) for place, (path, cosine) in enumerate(cosines.items())]
    found = Candidates(WordMatches(CHUNKS, {"ledger": 2}, 10), (), near, (), Signals(0))
    return [ranked.hit.ref for ranked in rank(query, found)]


def test_small_difference_of_embeddings_does_not_outweigh_words():
    """Compare on a fixed span: in a large project, the nearest differ by little."""
    near = {"far.py": 0.52, "b.py": 0.51, "a.py": 0.50}
    assert rank_by_embedding("ledger of accounts", near)[2] == "far.py"


def test_question_how_something_works_goes_more_by_words():
    near = {"far.py": 0.6, "a.py": 0.35}
    assert rank_by_embedding("ledger of accounts", near)[0] == "far.py"
    assert rank_by_embedding("how is the ledger kept", near)[0] == "a.py"


def test_meaning_of_all_words_of_a_file_counts_beside_embeddings():
    near = [(make_hit(10, "a.py", OVERVIEW), 0.5), (make_hit(11, "b.py", OVERVIEW), 0.5)]
    words = {"a.py": Similarity(0.5, 0.2), "b.py": Similarity(0.5, 1.0)}
    found = Candidates(WordMatches(CHUNKS, {"ledger": 2}, 10), (), near, (), Signals(0), words)
    assert next(ranked.hit.ref for ranked in rank("ledger of accounts", found)) == "b.py"
