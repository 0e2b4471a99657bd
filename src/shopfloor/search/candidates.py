"""Candidates: what one search hands to the ranking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from shopfloor.domain.chunks import OVERVIEW
from shopfloor.domain.discoveries import Discovery
from shopfloor.domain.index import Hit, Scope, WordMatches
from shopfloor.domain.tokenizer import extract_terms, find_symbol, find_symbols_in_text
from shopfloor.gateways.files import Files
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.search.embedding_index import QueryEmbedding
from shopfloor.search.outdated import Outdated, find_outdated
from shopfloor.search.ranking import SYMBOL_SEPARATORS, Candidates, Signals
from shopfloor.search.vectors import unpack_vectors
from shopfloor.search.word_similarity import measure_similarity

CHUNKS_BY_WORDS = 100
"""Maximum number of chunks and documents found by words."""

FILES_BY_WORDS = 100
"""Maximum number of file overviews found by words."""

NEAREST_EMBEDDINGS = 200
"""Maximum number of chunks and overviews (two for each file) found by embedding."""

DEFINITIONS_PER_SYMBOL = 50

MAX_NEAREST = 12_800
"""Maximum number of nearest embeddings to look at if the caller may not see the nearer ones."""


@dataclass(frozen=True, slots=True)
class SearchCandidates:
    """The candidates of one search, and the discoveries among them."""

    candidates: Candidates
    discoveries: dict[str, Discovery]
    outdated: dict[str, Outdated]


def find_candidates(
    uow: UnitOfWork, files: Files, query: str, scope: Scope, embedding: QueryEmbedding | None
) -> SearchCandidates:
    """Collect everything that the ranking needs, from one snapshot."""
    symbol = find_symbol(query)
    names = [SYMBOL_SEPARATORS.split(symbol)[-1]] if symbol else find_symbols_in_text(query)
    by_symbol = [hit for name in names for hit in uow.chunks.by_symbol(name, scope, DEFINITIONS_PER_SYMBOL)]
    # A parameter or an attribute has no definition. Texts that contain the identifier itself rank before texts that
    # contain its parts.
    literal = symbol.lower() if symbol and not by_symbol else ""
    by_words, by_file = find_by_words(uow, query, scope, embedded=embedding is not None, literal=literal)
    by_embedding = [] if embedding is None else find_nearest(uow, scope, embedding)
    refs: dict[str, dict[str, None]] = {}
    for hit in (*(hit for hit, _ in (*by_words.hits, *by_file, *by_embedding)), *by_symbol):
        refs.setdefault(hit.source, {})[hit.ref] = None
    if embedding is not None:
        by_embedding += find_further_overviews(uow, by_embedding, list(refs.get("code", ())), embedding)
    discoveries = {
        str(each.id): each for each in uow.discoveries.find_many([int(ref) for ref in refs.get("discovery", ())])
    }
    outdated = {ref: why for ref, each in discoveries.items() if (why := find_outdated(uow, files, each))}
    signals = Signals(
        now=uow.now,
        accesses=uow.file_accesses.counts(list(refs.get("code", ()))),
        outdated=frozenset(outdated),
        overview_share=1.0 if embedding is None else embedding.count.first_share,
        embedded_share=1.0 if embedding is None else embedding.count.share,
    )
    is_named = bool(symbol and by_symbol) or has_literal(literal, query, by_words)
    word_counts = {} if is_named else uow.chunks.word_counts(list(refs.get("code", ())))
    similarity = measure_similarity(extract_terms(query), word_counts)
    candidates = Candidates(by_words, by_file, by_embedding, by_symbol, signals, similarity)
    return SearchCandidates(candidates, discoveries, outdated)


def find_by_words(
    uow: UnitOfWork, query: str, scope: Scope, *, embedded: bool, literal: str = ""
) -> tuple[WordMatches, list[tuple[Hit, float]]]:
    """Return the chunks and the file overviews that contain words of the query, each list best first.

    If the query is an identifier, it is also given as `literal`, and chunks that contain it come first.
    """
    terms = extract_terms(query)
    matches = uow.chunks.by_words(terms, scope, CHUNKS_BY_WORDS, literal, embedded=embedded)
    if has_literal(literal, query, matches):
        return matches, []  # a file that merely contains the parts of the identifier is no evidence
    return matches, uow.chunks.files_by_words(matches, scope, FILES_BY_WORDS, embedded=embedded)


def has_literal(literal: str, query: str, matches: WordMatches) -> bool:
    """Return whether the query is an identifier of several words that occurs literally."""
    return bool(matches.counts.get(literal)) and len(extract_terms(query)) > 1


def find_nearest(uow: UnitOfWork, scope: Scope, query: QueryEmbedding) -> list[tuple[Hit, float]]:
    """Return the chunks nearest to the query, with their cosines. Look further while the caller may not see nearer
    ones."""
    among = uow.chunks.digests(scope) if scope.is_narrow else None
    count = NEAREST_EMBEDDINGS
    while True:
        # A few more than needed, because the texts of some no longer exist.
        wanted = count * 5 // 4
        nearest = query.vectors.nearest(query.vector, wanted, among)
        # Of a great many vectors, only signs are compared in memory, which gives a rough order. The full embeddings of
        # the nearest ones give the exact order.
        if query.vectors.uses_signs:
            exact = _load_cosines(uow, [digest for digest, _ in nearest], query)
            # Loading all of them would take as long as comparing them.
            nearest = sorted(exact.items(), key=lambda each: -each[1])[:wanted]
        cosines = dict(nearest)
        hits = sorted(uow.chunks.by_digest(list(cosines), scope), key=lambda hit: (-cosines[hit.digest], hit.id))
        if len(hits) >= NEAREST_EMBEDDINGS or len(nearest) < count or count >= MAX_NEAREST:
            return [(hit, cosines[hit.digest]) for hit in hits[:NEAREST_EMBEDDINGS]]
        count *= 4


def find_further_overviews(
    uow: UnitOfWork, nearest: Sequence[tuple[Hit, float]], paths: Sequence[str], query: QueryEmbedding
) -> list[tuple[Hit, float]]:
    """Return the overviews of these files that are not among the nearest embeddings, with their cosines.

    Otherwise a file that was found by words would count as far from the query just because chunks and tests, of which
    there are many, are nearer.
    """
    known = {hit.id for hit, _ in nearest}
    complete = {
        ref for ref, count in Counter(hit.ref for hit, _ in nearest if hit.kind == OVERVIEW).items() if count > 1
    }
    hits = [
        hit for hit in uow.chunks.overviews([path for path in paths if path not in complete]) if hit.id not in known
    ]
    digests = [hit.digest for hit in hits]
    in_memory = not query.vectors.uses_signs
    cosines = query.vectors.cosines(query.vector, digests) if in_memory else _load_cosines(uow, digests, query)
    return [(hit, cosines[hit.digest]) for hit in hits if hit.digest in cosines]


def _load_cosines(uow: UnitOfWork, digests: Sequence[bytes], query: QueryEmbedding) -> dict[bytes, float]:
    stored = uow.embeddings.get_many(query.model, digests)
    known = [digest for digest in digests if digest in stored]
    cosines = (unpack_vectors([stored[digest] for digest in known]) * query.vector).sum(axis=1) if known else []
    return dict(zip(known, map(float, cosines), strict=True))
