"""Chunks as a caller may find them: by words, by name and by the digest of their text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from shopfloor.domain import globs
from shopfloor.domain.index import Hit, Scope, WordMatches
from shopfloor.domain.tokenizer import is_phrase, list_short_forms
from shopfloor.store.protocol import Connection, Row

_HIT_COLUMNS = ", ".join(f"c.{name}" for name in Hit._fields)

_SCORE = "-bm25(chunk_words, 5.0, 5.0, 2.0, 1.0)"
"""The weights of a word in the name, the path, the signature and the body."""

# FTS5 fixes k1 = 1.2 and b = 0.75, and takes one mean length over chunks and whole files, which makes every file long.
# With large weights a word counts nearly in full, however long its file is. Combined with embeddings, which prefer
# short files, this is better: fused NDCG@10 of questions on the tuning half is 0.767 with the weights above and 0.784
# with these. By words alone it gains nothing. For chunks, length must count: docstring → function falls from 0.53 to
# 0.47 with twice the weights.
_FILE_SCORE_BESIDE_EMBEDDINGS = "-bm25(chunk_words, 20.0, 20.0, 20.0, 20.0)"

# CASE keeps PostgreSQL from casting the ref of another source, such as a path, which is not a number.
_FINDABLE = """(
    c.owner IS NULL OR c.owner = :reader OR EXISTS (
        SELECT 1 FROM receipt r
        WHERE r.workspace = c.workspace AND r.recipient = :reader
          AND r.mail = CASE WHEN c.source = 'mail' THEN CAST(c.ref AS BIGINT) END
    )
)"""
"""A chunk with an owner is found by its owner, and a mail also by its recipients."""

MIN_TERMS = 2
"""Minimum number of terms that a query keeps, however common they are."""

MAX_TERMS = 12
"""Maximum number of terms to search for. On the tuning half of docstring → function, fused, MRR@10 is 0.636 with 10 or
14 of them and 0.635 with all; the longest questions take half the time."""

OTHERS_SHARE = 0.25
"""The score of the best text with only parts of an identifier, relative to the last text with the whole identifier."""

COMMON_SHARE = 0.2
"""The share of chunks above which a term is not searched for. Measured as above: 0.1 gives 0.633, 0.05 gives 0.626."""

MAX_SCORED_ROWS = 10_000
"""Texts with one of the words above which not all of them are scored: `bm25` takes 0.7 µs for each, five times as much
as to find it. On the tuning half by words, where packages have up to 15,000 texts, NDCG@10 is 0.804 without a limit,
0.802 with 1,000 and 0.801 with 300."""

LEADING_WORDS = 2
"""Common words, the rarest first, of which each is searched together with one that is more common."""


MIN_KEPT_COUNT = 2_000
"""Number of texts from which a count is used again. To count fewer takes 0.1 ms, and rare words must be exact: one that
is nowhere is searched for in its short forms."""

KEPT_SHARE = 0.01
"""The share of texts that may be added before they are counted again. Only logarithms of counts are ranked by."""

KEPT_SECONDS = 600.0
"""How long a count is used: deleted texts are not noticed."""


class TermCounts:
    """The counts of common words, kept for later searches.

    At 100,000 files, counting took 14 of the 35 ms of a search by words: FTS5 reads every row that has a word.
    """

    def __init__(self) -> None:
        # One value, replaced as a whole: several threads search at once.
        self._kept = _KeptCounts(0, 0, 0.0, {})

    @property
    def has_any(self) -> bool:
        return self._kept.total > 0

    def find(self, newest_id: int) -> tuple[int, dict[str, int]]:
        """Return the total, 0 if unknown, and the known counts. They are forgotten when many texts have been added."""
        kept = self._kept
        is_near = 0 <= newest_id - kept.newest_id <= kept.total * KEPT_SHARE
        is_valid = is_near and time.monotonic() - kept.counted_at <= KEPT_SECONDS
        return (kept.total, dict(kept.terms)) if is_valid else (0, {})

    def keep(self, newest_id: int, total: int, counts: Mapping[str, int]) -> None:
        """Keep the counts that are large, made when the newest text had this id."""
        if total < MIN_KEPT_COUNT:
            return
        large = {term: count for term, count in counts.items() if count >= MIN_KEPT_COUNT}
        kept = self._kept
        if self.find(newest_id)[0] == total:
            self._kept = replace(kept, terms=large)
        else:
            self._kept = _KeptCounts(newest_id, total, time.monotonic(), large)


@dataclass(frozen=True, slots=True)
class _KeptCounts:
    newest_id: int
    total: int
    counted_at: float
    terms: Mapping[str, int]


class Chunks:
    """The chunks that one reader may find."""

    def __init__(
        self, connection: Connection, workspace: int, root: str, reader: str, term_counts: TermCounts | None = None
    ) -> None:
        self._connection = connection
        self._workspace = workspace
        self._root = root
        self._reader = reader
        self._term_counts = term_counts or TermCounts()
        self._scored_files: dict[tuple[str, str, int], list[Row]] = {}
        """Overviews of files that were scored together with chunks, by query, score and limit."""

    def by_words(
        self, terms: Sequence[str], scope: Scope, limit: int, literal: str = "", *, embedded: bool | None = None
    ) -> WordMatches:
        """Return the chunks and documents that have most of these words, best first, without overviews of files.

        Those that contain `literal`, one of the terms, come first. If `embedded` is given, `files_by_words` follows with
        the same limit.
        """
        if not terms:
            return WordMatches()
        chunks, counts = self._count_terms(terms)
        known = [term for term in terms if counts[term]]
        searched = _choose_terms(known, counts, chunks)
        # A word that no chunk has may occur in its short form.
        short = [form for term in terms if not counts[term] and not is_phrase(term) for form in list_short_forms(term)]
        words = [*searched, *dict.fromkeys(short)]
        matches = WordMatches((), counts, chunks)
        if not words:
            return matches
        file_score = None if embedded is None else _FILE_SCORE_BESIDE_EMBEDDINGS if embedded else _SCORE
        hits = self._search_words(words, matches, scope, limit, files=False, file_score=file_score)
        if len(words) > 1 and counts.get(literal):
            hits = _put_first(self._search_words([literal], matches, scope, limit, files=False), hits)[:limit]
        return replace(matches, hits=hits)

    def files_by_words(
        self, matches: WordMatches, scope: Scope, limit: int, *, embedded: bool
    ) -> list[tuple[Hit, float]]:
        """Return the overviews of the files with most words of a query, best first, given its matches among chunks.

        `embedded` says whether embeddings rank the files, too.
        """
        score = _FILE_SCORE_BESIDE_EMBEDDINGS if embedded else _SCORE
        words = _choose_file_terms(matches)
        return self._search_words(words, matches, scope, limit, files=True, score=score) if words else []

    def _search_words(
        self,
        words: Sequence[str],
        matches: WordMatches,
        scope: Scope,
        limit: int,
        *,
        files: bool,
        score: str = _SCORE,
        file_score: str | None = None,
    ) -> list[tuple[Hit, float]]:
        if self._connection.engine != "sqlite":
            return self._ranked_by_words(" | ".join(f"'{word}'" for word in words), scope, limit, files=files)
        plan = _plan_queries(words, matches)
        if file_score is not None:
            plan = replace(
                plan, file_score=file_score, shared=_plan_queries(_choose_file_terms(matches), matches).common
            )
        hits = None if scope.is_narrow else self._best_by_words(plan, scope, limit, score, files=files)
        return self._all_by_words(_join(words), scope, limit, score, files=files) if hits is None else hits

    def _ranked_by_words(self, query: str, scope: Scope, limit: int, *, files: bool) -> list[tuple[Hit, float]]:
        """Search on PostgreSQL, which ranks within the join."""
        # The weights of ts_rank are those of D, C, B and A, in that order.
        where, params = self._where(scope)
        rows = self._connection.fetch_all(
            f"""
            SELECT {_HIT_COLUMNS}, ts_rank('{{0.2, 0.4, 0.4, 1.0}}', w.words, q.query, 1) AS score
            FROM (SELECT to_tsquery('english', :query) AS query) q
            JOIN chunk_words w ON w.words @@ q.query
            JOIN chunk c ON c.id = w.id
            WHERE c.kind {"=" if files else "<>"} 'file' AND {where}
            ORDER BY score DESC, c.id LIMIT :limit
            """,
            query=query,
            limit=limit,
            **params,
        )
        return [(Hit(*row[:-1]), float(row[-1])) for row in rows]

    def _best_by_words(
        self, plan: _QueryPlan, scope: Scope, limit: int, score: str, *, files: bool
    ) -> list[tuple[Hit, float]] | None:
        """Search the best of all chunks, at half the cost of a join; return None when the reader may see too few."""
        best = self._score_words(plan, limit * 2, score, files=files)
        is_whole = not best
        if is_whole:
            best = self._score_words(_QueryPlan([plan.whole]), limit * 2, score, files=files)
        # NOT INDEXED: fetch the rows by their ids. SQLite would choose an index on the workspace and scan the whole
        # project.
        where, params = self._where(scope)
        hits: list[tuple[Hit, float]] = []
        for start in range(0, len(best), limit):
            scores = dict(best[start : start + limit])
            listed = ", ".join(map(str, scores))
            rows = self._connection.fetch_all(
                f"SELECT {_HIT_COLUMNS} FROM chunk c NOT INDEXED WHERE c.id IN ({listed}) AND {where}", **params
            )
            matches = ((hit, scores[hit.id]) for hit in (Hit(*row) for row in rows))
            hits += sorted(matches, key=lambda each: (-each[1], each[0].id))
            if len(hits) >= limit:
                return hits[:limit]
        if is_whole:
            return hits if len(best) < limit * 2 else None
        return hits or None

    def _score_words(self, plan: _QueryPlan, limit: int, score: str, *, files: bool) -> list[tuple[int, float]]:
        """Return the ids of the texts that one of the queries finds, best first. A text has its highest score."""
        scores: dict[int, float] = {}

        def score_query(query: str) -> int:
            if not files and query in plan.shared:
                rows = self._score_with_files(query, limit, score, plan.file_score)
            elif files and (query, score, limit) in self._scored_files:
                rows = self._scored_files[query, score, limit]
            else:
                rows = self._score_query(query, limit, score, files=files)
            for id, found in rows:
                scores[int(id)] = max(float(found), scores.get(int(id), 0.0))
            return len(rows)

        for query in plan.rare:
            score_query(query)
        for query in plan.pairs:
            if score_query(query) == limit:
                break
        return sorted(scores.items(), key=lambda each: (-each[1], each[0]))[:limit]

    def _score_query(self, query: str, limit: int, score: str, *, files: bool) -> list[Row]:
        return self._connection.fetch_all(
            f"""
            SELECT abs(rowid), {score} AS score FROM chunk_words
            WHERE chunk_words MATCH :query AND rowid {"<" if files else ">"} 0
            ORDER BY score DESC, rowid LIMIT :limit
            """,
            query=query,
            limit=limit,
        )

    def _score_with_files(self, query: str, limit: int, score: str, file_score: str) -> list[Row]:
        """Score chunks and keep the scores of files, for which the same query follows.

        Before it scores a text, `bm25` counts the rows of each word: with common words, that takes most of the time.
        """
        rows = self._connection.fetch_all(
            f"""
            WITH found AS MATERIALIZED (
                SELECT rowid AS id, CASE WHEN rowid > 0 THEN {score} ELSE {file_score} END AS score
                FROM chunk_words WHERE chunk_words MATCH :query
            )
            SELECT * FROM (SELECT id, score FROM found WHERE id > 0 ORDER BY score DESC, id LIMIT :limit)
            UNION ALL
            SELECT * FROM (SELECT id, score FROM found WHERE id < 0 ORDER BY score DESC, id LIMIT :limit)
            """,
            query=query,
            limit=limit,
        )
        self._scored_files[query, file_score, limit] = [(-id, found) for id, found in rows if id < 0]
        return [row for row in rows if row[0] > 0]

    def _all_by_words(
        self, query: str, scope: Scope, limit: int, score: str, *, files: bool
    ) -> list[tuple[Hit, float]]:
        where, params = self._where(scope)
        rows = self._connection.fetch_all(
            f"""
            SELECT {_HIT_COLUMNS}, {score} AS score
            FROM chunk_words JOIN chunk c ON c.id = abs(chunk_words.rowid)
            WHERE chunk_words MATCH :query AND chunk_words.rowid {"<" if files else ">"} 0 AND {where}
            ORDER BY score DESC, c.id LIMIT :limit
            """,
            query=query,
            limit=limit,
            **params,
        )
        return [(Hit(*row[:-1]), float(row[-1])) for row in rows]

    def _count_terms(self, terms: Sequence[str]) -> tuple[int, dict[str, int]]:
        """Count all chunks, and those that have each term. Large counts are kept for later searches."""
        total, known = 0, dict[str, int]()
        if self._term_counts.has_any:
            row = self._connection.fetch_one("SELECT max(id) FROM chunk")
            total, known = self._term_counts.find(int(row[0] or 0) if row else 0)
        unknown = [term for term in terms if term not in known]
        if not total or unknown:
            if self._connection.engine == "sqlite":
                named = {f"term{number}": f'"{term}"' for number, term in enumerate(unknown)}
                counts = [f"(SELECT count(*) FROM chunk_words WHERE chunk_words MATCH :{name})" for name in named]
            else:
                named = {f"term{number}": f"'{term}'" for number, term in enumerate(unknown)}
                counts = [
                    f"(SELECT count(*) FROM chunk_words WHERE words @@ to_tsquery('english', :{name}))"
                    for name in named
                ]
            counted = ", ".join([*([] if total else ["(SELECT count(*) FROM chunk)"]), *counts])
            row = self._connection.fetch_one(f"SELECT (SELECT max(id) FROM chunk), {counted}", **named)
            assert row is not None
            newest, *found = (int(value or 0) for value in row)
            total = total or found.pop(0)
            known |= zip(unknown, found, strict=True)
            self._term_counts.keep(newest, total, known)
        return total, {term: known[term] for term in terms}

    def by_symbol(self, name: str, scope: Scope, limit: int) -> list[Hit]:
        """Return the chunks of code that define a name, in any class or module."""
        where, params = self._where(scope)
        rows = self._connection.fetch_all(
            f"""
            SELECT {_HIT_COLUMNS} FROM chunk_symbol s
            JOIN chunk c ON c.id = s.chunk
            WHERE s.workspace = :workspace AND s.root = :root AND s.name = :name AND {where}
            ORDER BY c.id LIMIT :limit
            """,
            name=name.lower(),
            limit=limit,
            **params,
        )
        return [Hit(*row) for row in rows]

    def by_digest(self, digests: Sequence[bytes], scope: Scope) -> list[Hit]:
        """Return the chunks whose text has one of these digests."""
        if not digests:
            return []
        where, params = self._where(scope)
        named = {f"digest{number}": digest for number, digest in enumerate(digests)}
        rows = self._connection.fetch_all(
            f"""
            SELECT {_HIT_COLUMNS} FROM chunk c
            WHERE c.workspace = :workspace AND c.digest IN ({", ".join(f":{name}" for name in named)}) AND {where}
            """,
            **named,
            **params,
        )
        return [Hit(*row) for row in rows]

    def overviews(self, paths: Sequence[str]) -> list[Hit]:
        """Return the overviews of files, two for each."""
        if not paths:
            return []
        named = {f"path{number}": path for number, path in enumerate(paths)}
        # They are the first chunks of a file: with the ordinal, the index finds them without reading the others.
        rows = self._connection.fetch_all(
            f"""
            SELECT {_HIT_COLUMNS} FROM chunk c
            WHERE c.workspace = :workspace AND c.root = :root AND c.source = 'code' AND c.kind = 'file'
              AND c.ordinal IN (0, 1) AND c.ref IN ({", ".join(f":{name}" for name in named)})
            """,
            workspace=self._workspace,
            root=self._root,
            **named,
        )
        return [Hit(*row) for row in rows]

    def word_counts(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return the packed word counts of files that were found."""
        if not paths:
            return {}
        named = {f"path{number}": path for number, path in enumerate(paths)}
        # They are at the first chunk of a file: the overview that has its words.
        rows = self._connection.fetch_all(
            f"""
            SELECT ref, word_counts FROM chunk
            WHERE workspace = :workspace AND root = :root AND source = 'code' AND ordinal = 0
              AND word_counts IS NOT NULL AND ref IN ({", ".join(f":{name}" for name in named)})
            """,
            workspace=self._workspace,
            root=self._root,
            **named,
        )
        return {path: bytes(counts) for path, counts in rows}

    def digests(self, scope: Scope) -> set[bytes]:
        """Return the digests of all texts within the scope."""
        where, params = self._where(scope)
        rows = self._connection.fetch_all(f"SELECT DISTINCT c.digest FROM chunk c WHERE {where}", **params)
        return {bytes(digest) for (digest,) in rows}

    def _where(self, scope: Scope) -> tuple[str, dict[str, object]]:
        """Return the condition that restricts a statement to this project, this reader and the scope."""
        where = f"c.workspace = :workspace AND c.root IN (:root, '') AND {_FINDABLE}"
        params: dict[str, object] = {"workspace": self._workspace, "root": self._root, "reader": self._reader}
        if scope.sources is not None:
            named = {f"source{number}": source for number, source in enumerate(scope.sources)}
            where += f" AND c.source IN ({', '.join(f':{name}' for name in named)})"
            params |= named
        if scope.type is not None:
            where += " AND c.type = :type"
            params["type"] = scope.type
        if scope.module is not None:
            where += " AND c.module = :module"
            params["module"] = scope.module
        if scope.path is not None:
            where += " AND c.source = 'code' AND NOT " if scope.path.startswith("!") else " AND c.source = 'code' AND "
            is_sqlite = self._connection.engine == "sqlite"
            where += "(c.ref REGEXP :path)" if is_sqlite else "(c.ref ~ :path)"
            params["path"] = globs.to_regex(scope.path, backtracks=is_sqlite)
        if scope.language is not None:
            where += """ AND c.source = 'code' AND EXISTS (
                SELECT 1 FROM indexed_file f
                WHERE f.workspace = c.workspace AND f.root = c.root AND f.path = c.ref AND f.language = :language
            )"""
            params["language"] = scope.language
        if scope.tests is not None:
            where += " AND " if scope.tests else " AND NOT "
            where += "(c.source = 'code' AND c.type = 'test')"
        return where, params


def _put_first(first: Sequence[tuple[Hit, float]], others: Sequence[tuple[Hit, float]]) -> list[tuple[Hit, float]]:
    """Return both lists as one, with the scores of the others lowered far below those of the first."""
    known = {hit.id for hit, _ in first}
    highest = max((score for _, score in others), default=0.0)
    if not first or highest <= 0:
        return [*first, *others]
    factor = OTHERS_SHARE * first[-1][1] / highest
    return [*first, *((hit, score * factor) for hit, score in others if hit.id not in known)]


def _join(words: Sequence[str]) -> str:
    return " OR ".join(f'"{word}"' for word in words)


@dataclass(frozen=True, slots=True)
class _QueryPlan:
    """The queries that together find the best texts. A text has its whole score in one of them."""

    rare: Sequence[str] = ()
    pairs: Sequence[str] = ()
    """Each finds texts that have two common words, the rarest words first. Once one has found enough, the next is left
    out: before it scores a text, `bm25` counts the rows of each word again, which took two thirds of its time. On the
    tuning half by words, with MAX_SCORED_ROWS of 10,000, 1,000 and 300, NDCG@10 is the same."""
    whole: str = ""
    """Finds all texts, for when the others find nothing."""
    shared: frozenset[str] = frozenset()
    """Queries with which files are searched, too."""
    file_score: str = ""

    @property
    def common(self) -> frozenset[str]:
        """The queries that have common words."""
        return frozenset((*self.rare[1:], *self.pairs))


def _plan_queries(words: Sequence[str], matches: WordMatches) -> _QueryPlan:
    """Return the queries that find the best texts with these words.

    If the words are common, these are the texts that have a rare word, and those that have two of the common words.
    Beside a rare word, very common ones do not count.
    """
    counts = matches.counts
    ordered = sorted(words, key=lambda word: counts.get(word, 0))
    totals = accumulate(counts.get(word, 0) for word in ordered)
    rare = [word for word, total in zip(ordered, totals, strict=True) if total <= MAX_SCORED_ROWS]
    common = ordered[len(rare) :]
    queries = []
    if rare and common:
        common = [word for word in common if counts[word] <= matches.chunks * COMMON_SHARE]
        queries = [_join(rare), *([f"({_join(rare)}) AND ({_join(common)})"] if common else [])]
    pairs = [
        f"{_join(common[place : place + 1])} AND ({_join(common[place + 1 :])})"
        for place in range(min(LEADING_WORDS, len(common) - 1))
    ]
    return _QueryPlan(queries, pairs, _join(ordered))


def _choose_file_terms(matches: WordMatches) -> Sequence[str]:
    """Return the terms to search whole files for, the rarest first."""
    # The words of a whole file have no order, so a phrase would match by chance.
    words = [term for term, count in matches.counts.items() if count and not is_phrase(term)]
    return sorted(words, key=matches.counts.__getitem__)[:MAX_TERMS]


def _choose_terms(terms: Sequence[str], counts: Mapping[str, int], chunks: int) -> Sequence[str]:
    """Return the rarest terms, without very common ones, which say little and cost most."""
    if len(terms) <= MIN_TERMS:
        return terms
    rare = [term for term in terms if counts[term] <= chunks * COMMON_SHARE]
    return sorted(rare if len(rare) >= MIN_TERMS else terms, key=counts.__getitem__)[:MAX_TERMS]
