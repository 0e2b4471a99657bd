"""The search index: the one owner of what is indexed, what is pending and how fresh it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from shopfloor.domain.index import EmbeddedCount, Freshness, Scope
from shopfloor.errors import IndexEmpty
from shopfloor.gateways.embeddings import Embeddings
from shopfloor.gateways.files import Files
from shopfloor.gateways.project_tree import ProjectTree
from shopfloor.repositories.uow import Database
from shopfloor.search.caller import Caller
from shopfloor.search.candidates import find_candidates
from shopfloor.search.documents import DocumentIndex
from shopfloor.search.embedding_index import EMBEDDED_PER_TRANSACTION, EmbeddingIndex
from shopfloor.search.file_index import FileIndex
from shopfloor.search.ranking import Candidates, Ranked, Reasons, explain_rank, rank
from shopfloor.search.results import Result, load_results, mark_result
from shopfloor.search.shown import ShownResults

REFRESH_SECONDS = 0.3
"""Time that a search spends on changed files; the first one, which has to index everything, gets longer."""
FIRST_REFRESH_SECONDS = 1.5
DOCUMENT_SECONDS = 0.5
WAIT_SECONDS = 2.0
"""How long a search waits for another thread's refresh."""

UPDATE_WAIT_SECONDS = 30.0
UPDATE_SLICE_SECONDS = 1.0

StageProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The results of a search, and how fresh the index was."""

    results: list[Result]
    total: int
    has_more: bool
    milliseconds: int
    freshness: Freshness
    by_embedding: bool
    embedded: EmbeddedCount | None
    """None when no embeddings are computed."""
    embeddings_off: bool


@dataclass(frozen=True, slots=True)
class ExplainedSearch:
    """The results of a search, each with the reasons for its rank."""

    search: SearchResult
    results: list[tuple[Result, Reasons]]


class SearchIndex:
    """The index of one project and of its team's documents.

    It writes in transactions of its own: a search reads for its caller, and refreshing the index is the index's affair.
    """

    def __init__(
        self, database: Database, files: Files, tree: ProjectTree, model: Embeddings, *, embed_chunks: bool = True
    ) -> None:
        self._files = files
        self._tree = tree
        self.embeddings = EmbeddingIndex(database, files, model, embed_chunks=embed_chunks)
        self.files = FileIndex(database, files, tree, on_change=self.embeddings.forget_counts)
        self.documents = DocumentIndex(database, on_change=self.embeddings.forget_counts)
        self.shown = ShownResults()
        self._requested = threading.Event()
        self._updating = False

    def search(
        self,
        caller: Caller,
        query: str,
        scope: Scope,
        limit: int,
        *,
        earlier: Collection[str] = (),
        unseen: bool = False,
    ) -> SearchResult:
        """Search by words, by embedding and by name, after a short refresh of the index.

        `earlier` are the marks of results on earlier pages, which are left out. `unseen` leaves out the results that the
        caller's session has been shown.
        """
        return self._search(caller, query, scope, limit, earlier, unseen)[0]

    def explain(self, caller: Caller, query: str, limit: int) -> ExplainedSearch:
        """Search everything, and say why each result has its rank."""
        search, results, candidates = self._search(caller, query, Scope(), limit)
        return ExplainedSearch(
            search, [(result, explain_rank(query, ranked.hit, candidates)) for ranked, result in results]
        )

    def refresh(self, caller: Caller) -> Freshness:
        """Index what little changed, and return how fresh the index is.

        The files of a large tree that is not watched are left to the background: to look at them takes longer than a
        search may.
        """
        reported = 0

        def report(done: int, total: int) -> None:
            # MCP demands that progress only grows. Another thread's refresh may have started over.
            nonlocal reported
            if done > reported:
                reported = done
                caller.progress(done, total, "Indexing files")

        if self._tree.is_large and not self._tree.is_watched:
            freshness = self.files.read_freshness()
        else:
            seconds = REFRESH_SECONDS if self.files.is_loaded else FIRST_REFRESH_SECONDS
            freshness = self.files.refresh(seconds, wait=WAIT_SECONDS, progress=report)
        return replace(freshness, documents_indexed=self.documents.update(DOCUMENT_SECONDS))

    def state(self) -> dict[str, Any]:
        """Return how far the index is, for people and metrics."""
        model = self.embeddings.model
        count = self.embeddings.count_now()
        return {
            "files": self.files.total,
            "filesPending": self.files.pending,
            "chunks": count.chunks,
            "embedded": count.embedded,
            "embeddings": model.name + ("" if model.ready() or self.embeddings.is_off else ", not installed"),
        }

    # The background

    def update_all(
        self, progress: StageProgress = lambda stage, done, total: None, *, embeddings: bool = True
    ) -> dict[str, Any]:
        """Index everything that changed, on this thread, and return the state."""
        scan = True
        while scan or self.files.pending:
            self.files.refresh(
                UPDATE_SLICE_SECONDS,
                wait=UPDATE_WAIT_SECONDS,
                thorough=True,
                scan=scan,
                in_background=True,
                progress=lambda done, total: progress("files", done, total),
            )
            scan = False
        self.documents.update()
        while embeddings and self.embeddings.embed_next(EMBEDDED_PER_TRANSACTION):
            count = self.embeddings.count_now()
            progress("embeddings", count.embedded, count.chunks)
        return self.state()

    def request_update(self) -> None:
        """Ask the background for an update of the index."""
        self._requested.set()

    def wait_for_request(self, timeout: float) -> bool:
        """Wait for a request of an update and take it; return False after the timeout."""
        requested = self._requested.wait(timeout)
        self._requested.clear()
        return requested

    @property
    def has_request(self) -> bool:
        return self._requested.is_set()

    @property
    def is_updating(self) -> bool:
        return self._updating

    @contextmanager
    def updating(self) -> Iterator[None]:
        """Mark an update by the background as running: searches do not request another one."""
        self._updating = True
        try:
            yield
        finally:
            self._updating = False

    def notice_change(self) -> None:
        """Take a hint that files changed."""
        self._tree.notice_change()
        self.request_update()

    def set_hinted(self, hinted: bool) -> None:
        """Say whether hints of changes come."""
        self._tree.set_hinted(hinted)

    def allow_watching(self) -> None:
        """Let a tree that is not small be watched."""
        self._tree.allow_watching()

    @property
    def is_watched(self) -> bool:
        return self._tree.is_watched

    def wait_for_change(self, seconds: float) -> bool:
        """Wait for a change of a tree that is watched."""
        return self._tree.wait_for_change(seconds)

    def close(self) -> None:
        """Release the threads that embed queries, and stop watching files."""
        self.embeddings.close()
        self._tree.close()

    def _search(
        self,
        caller: Caller,
        query: str,
        scope: Scope,
        limit: int,
        earlier: Collection[str] = (),
        unseen: bool = False,
    ) -> tuple[SearchResult, list[tuple[Ranked, Result]], Candidates]:
        began = time.monotonic()
        # The query is embedded on another thread while the files are compared.
        embedding_query = self.embeddings.start_query(query)
        freshness = self.refresh(caller)
        embedding, embedded = None, None
        if self.embeddings.model.ready():
            embedding = self.embeddings.finish_query(query, embedding_query)
            embedded = self.embeddings.count()
        incomplete = not freshness.complete or (embedded is not None and not embedded.complete)
        if incomplete and not self._updating:
            self.request_update()
        found = caller.read(lambda uow: find_candidates(uow, self._files, query, scope, embedding))
        ranked = rank(query, found.candidates)
        if not ranked and freshness.complete and caller.read(lambda uow: uow.index.is_empty()):
            raise IndexEmpty
        # One more than asked for, to know whether there are more.
        wanted = len(earlier) + limit + 1
        is_shown = partial(self.shown.includes, caller.session) if unseen else None
        loaded = load_results(caller, self._files, query, ranked, found, wanted, is_shown)
        new = [each for each in loaded if not earlier or mark_result(each[1]) not in earlier]
        results = new[:limit]
        search = SearchResult(
            results=[result for _, result in results],
            # What is left out for lack of evidence is known when there are fewer results than asked for.
            total=len(ranked) if len(loaded) == wanted else len(loaded),
            has_more=len(new) > limit,
            milliseconds=round((time.monotonic() - began) * 1000),
            freshness=freshness,
            by_embedding=embedded is not None and embedded.embedded > 0,
            embedded=embedded,
            embeddings_off=self.embeddings.is_off,
        )
        return search, results, found.candidates
