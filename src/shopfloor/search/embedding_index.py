"""Embeddings of chunks: computed in batches, stored, and compared with the embedding of a query."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from shopfloor.domain.chunks import digest_text
from shopfloor.domain.index import EmbeddedCount, Hit
from shopfloor.errors import ClientError, EmbeddingFailed
from shopfloor.gateways.embeddings import Embeddings, Matrix, Off
from shopfloor.gateways.files import Files
from shopfloor.repositories.uow import Database
from shopfloor.search.documents import INDEX_OWNER, SOURCES
from shopfloor.search.overview import chunk_project_file
from shopfloor.search.vectors import Vector, Vectors, count_dimensions, pack_vector

EMBEDDED_PER_TRANSACTION = 64
"""Number of chunks to embed before their embeddings are stored."""

QUEUED_CHUNKS = 1000
"""Number of chunks to look up at once. A lookup costs more than embedding a few chunks."""

COUNT_SECONDS = 2.0
COMPLETE_COUNT_SECONDS = 30.0
"""How long a count of the embedded chunks is cached, because counting reads every chunk."""
MANY_CHUNKS = 50_000
"""From this number of chunks on, a count stays in use for COUNT_SECONDS after a change. Otherwise each search during an
update would count again, which takes half a second for 200,000 chunks."""

MAX_NEW_SHARE = 0.02
"""The share of chunks that may be new since all of them had an embedding. Above it, all chunks are counted again, because
those that were replaced are still in the count."""

LOADED_ROWS = 5000
"""Number of embeddings that one read transaction loads."""

LATE_IDS = 1000
"""PostgreSQL may commit an id after a higher one, so this range before the last id is read again."""

QUERY_THREADS = 4


@dataclass(frozen=True, slots=True)
class QueryEmbedding:
    """The embedding of a query, and the embeddings to compare it with."""

    model: str
    vector: Vector
    vectors: Vectors
    count: EmbeddedCount


@dataclass(frozen=True, slots=True)
class _CompleteCount:
    """A count of many chunks, made when all of them had an embedding.

    They keep it as long as they exist, so later counts need to look only at newer chunks: at 100,000 files, counting all
    of them takes as long as ten searches.
    """

    model: str
    newest_chunk: int
    count: EmbeddedCount


class EmbeddingIndex:
    """The embeddings of one model, in the store and in memory."""

    def __init__(self, database: Database, files: Files, model: Embeddings, *, embed_chunks: bool) -> None:
        self.model = model
        self._embed_chunks = embed_chunks
        self._database = database
        self._files = files
        self._vectors = Vectors()
        self._executor = ThreadPoolExecutor(QUERY_THREADS, thread_name_prefix="shopfloor-embed")
        self._failure: EmbeddingFailed | None = None
        """Why chunks cannot be embedded at the moment."""
        self._lock = threading.Lock()
        self._queue: list[Hit] = []
        """Chunks to embed next, under the lock."""
        self._count: tuple[float, EmbeddedCount] | None = None
        """The cached count of chunks and embedded chunks, and when it expires, under the lock."""
        self._complete: _CompleteCount | None = None

    @property
    def is_off(self) -> bool:
        return self.model.name == Off.name

    def forget_counts(self) -> None:
        """Discard the count and the queue, after chunks were added or removed."""
        with self._lock:
            self._queue = []
            self._forget_count()

    def start_query(self, query: str) -> Future[Matrix] | None:
        """Embed a query on another thread while the index is refreshed, if there are embeddings to compare it with."""
        if not self.model.ready() or not len(self._vectors):
            return None
        return self._executor.submit(self.model.embed, [query])

    def finish_query(self, query: str, started: Future[Matrix] | None) -> QueryEmbedding | None:
        """Return the embedding of a query, or None when nothing is embedded yet."""
        self._load_vectors()
        if not len(self._vectors):
            # An endpoint that has failed since the start makes no embeddings. Do not report that they are being made.
            if self._failure is not None:
                raise EmbeddingFailed(**self._failure.facts)
            return None
        # The first embeddings may have been stored after `start_query`, which then did not embed the query.
        rows = self.model.embed([query]) if started is None else started.result()
        check_dimensions(rows.shape[1], self._vectors.dimensions)
        return QueryEmbedding(self.model.name, rows[0], self._vectors, self.count())

    def embed_next(self, limit: int = EMBEDDED_PER_TRANSACTION) -> int:
        """Embed the latest chunks without an embedding. Return how many: 0 if none are left or the model is off."""
        if not self.model.ready():
            return 0
        name = self.model.name
        texts = self._next_texts(limit)
        if not texts:
            with self._lock:
                self._forget_count()
            return 0
        try:
            rows = self.model.embed(list(texts.values()))
        except EmbeddingFailed as error:
            self._failure = error
            raise
        self._failure = None
        # An endpoint may serve another model under the same name. Storing its vectors beside those of the first model
        # made every search fail.
        first = self._database.read(lambda uow: uow.embeddings.page_after(name, 0, 1), INDEX_OWNER)
        check_dimensions(rows.shape[1], count_dimensions(first[0][2]) if first else 0)
        embeddings = [(digest, pack_vector(row)) for digest, row in zip(texts, rows, strict=True)]
        self._database.write(lambda uow: uow.embeddings.add(name, embeddings), INDEX_OWNER)
        return len(embeddings)

    def count(self) -> EmbeddedCount:
        """Return how many chunks have an embedding, and how many there are, as of a few seconds ago."""
        now = time.monotonic()
        with self._lock:
            counted = self._count
        if counted is not None and now < counted[0]:
            return counted[1]
        count = self._count_new() or self.count_now()
        with self._lock:
            self._count = now + (COMPLETE_COUNT_SECONDS if count.complete else COUNT_SECONDS), count
        return count

    def _forget_count(self) -> None:
        if self._count is not None and self._count[1].chunks >= MANY_CHUNKS:
            self._count = min(self._count[0], time.monotonic() + COUNT_SECONDS), self._count[1]
        else:
            self._count = None

    def _count_new(self) -> EmbeddedCount | None:
        """Count the chunks that are newer than the last complete count, or return None if all must be counted."""
        complete, name = self._complete, self.model.name
        if complete is None or complete.model != name:
            return None
        # PostgreSQL may commit an id after a higher one.
        after_id = complete.newest_chunk - (LATE_IDS if self._database.store.engine == "postgres" else 0)
        new = self._database.read(
            lambda uow: uow.embeddings.count(name, chunks=self._embed_chunks, after_id=after_id), INDEX_OWNER
        )
        return complete.count + new if new.chunks <= complete.count.chunks * MAX_NEW_SHARE else None

    def count_now(self) -> EmbeddedCount:
        """Count all chunks, and those that have an embedding."""
        name = self.model.name
        newest, count = self._database.read(
            lambda uow: (uow.embeddings.newest_chunk(), uow.embeddings.count(name, chunks=self._embed_chunks)),
            INDEX_OWNER,
        )
        if count.complete and count.chunks >= MANY_CHUNKS:
            self._complete = _CompleteCount(name, newest, count)
        return count

    def close(self) -> None:
        self._executor.shutdown(wait=False)

    def _load_vectors(self) -> None:
        """Load the embeddings that were stored since the last query."""
        name = self.model.name
        # On SQLite ids are committed in their order.
        last = max(0, self._vectors.last_id - (LATE_IDS if self._database.store.engine == "postgres" else 0))
        while True:
            rows = self._database.read(
                lambda uow, last=last: uow.embeddings.page_after(name, last, LOADED_ROWS),  # type: ignore[misc]
                INDEX_OWNER,
            )
            if rows:
                self._vectors.add(rows)
                last = rows[-1][0]
            if len(rows) < LOADED_ROWS:
                return

    def _next_texts(self, limit: int) -> dict[bytes, str]:
        """Return the texts to embed next by their digests. The queue is filled at most once."""
        filled = False
        while True:
            with self._lock:
                hits, self._queue = self._queue[:limit], self._queue[limit:]
            if not hits and filled:
                return {}
            # Skip chunks whose text no longer exists. Otherwise they would block the rest of the queue.
            if hits and (texts := self._load_texts(hits)):
                return texts
            if not hits:
                filled = True
                queue = self._database.read(
                    lambda uow: uow.embeddings.missing(self.model.name, QUEUED_CHUNKS, chunks=self._embed_chunks),
                    INDEX_OWNER,
                )
                with self._lock:
                    self._queue = queue

    def _load_texts(self, hits: Sequence[Hit]) -> dict[bytes, str]:
        """Load the texts of chunks. A chunk whose text has changed is left out; its new text is queued later."""
        wanted = {hit.digest for hit in hits}
        texts: dict[bytes, str] = {}
        for path in dict.fromkeys(hit.ref for hit in hits if hit.source == "code"):
            try:
                data = self._files.read(path).data
            except ClientError:
                continue
            for chunk in chunk_project_file(path, data):
                text = chunk.embedding_text
                texts[digest_text(text)] = text
        for name, source in SOURCES.items():
            if refs := [hit.ref for hit in hits if hit.source == name]:
                documents = self._database.read(
                    lambda uow, source=source, refs=refs: source.load(uow, refs),  # type: ignore[misc]
                    INDEX_OWNER,
                )
                texts |= {digest_text(document.embedding_text): document.embedding_text for document in documents}
        return {digest: text for digest, text in texts.items() if digest in wanted}


def check_dimensions(given: int, known: int) -> None:
    """Reject embeddings that cannot be compared with the stored ones, because another model made them."""
    if known and given != known:
        raise EmbeddingFailed(
            details=f"The model returns {given} dimensions, but the index has {known}: it is a different model",
            hint="Set embeddings_model to the name of the model that is used",
        )
