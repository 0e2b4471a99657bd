"""The files of the project in the index: which changed, and indexing those."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from shopfloor.domain.chunks import CHUNKING_VERSION, digest_file
from shopfloor.domain.file_kinds import detect_language, detect_module, detect_role
from shopfloor.domain.index import Freshness, IndexedChunk, IndexedFile, index_file
from shopfloor.errors import ClientError, ShopfloorError
from shopfloor.gateways.files import Files
from shopfloor.gateways.project_tree import FileStat, ProjectTree, settled_stamp
from shopfloor.repositories.uow import Database, UnitOfWork
from shopfloor.search.documents import INDEX_OWNER
from shopfloor.search.overview import chunk_project_file
from shopfloor.search.word_similarity import pack_word_counts

ROWS_PER_TRANSACTION = 500
"""Files and chunks that one transaction writes; it takes some 15 ms."""

MANY_CHANGES = 100
"""Changed files above which a search indexes only a few of them, such as after a switch of branches."""
SHARE_SECONDS = 0.03
"""Time that a search spends on many changed files. The background indexes the others."""

REPORT_SECONDS = 0.1
"""How often a caller that waits for another thread's refresh reports its progress."""

Progress = Callable[[int, int], None]
Batch = Sequence[tuple[IndexedFile, list[IndexedChunk]]]


def ignore_progress(done: int, total: int) -> None:
    """Report nothing."""


class FileIndex:
    """Keeps the index up to date with the files. One thread at a time refreshes it; others search what is there."""

    def __init__(self, database: Database, files: Files, tree: ProjectTree, on_change: Callable[[], None]) -> None:
        self._database = database
        self._files = files
        self._tree = tree
        self._on_change = on_change
        self._lock = threading.Lock()
        """Held while the files are compared and indexed; everything below changes under it alone."""
        self._stamps: dict[str, str] | None = None
        """The stamps of the indexed files by path, read from the store by the first refresh."""
        self._stats: dict[str, FileStat] = {}
        self._waiting = 0
        """Threads that wait for the lock. Changes under `_waiting_lock`."""
        self._waiting_lock = threading.Lock()
        self._pending: list[str] = []
        """Changed files, the latest last: that one is indexed first."""
        self._total = 0

    @property
    def total(self) -> int:
        return self._total

    @property
    def pending(self) -> int:
        return len(self._pending)

    @property
    def is_loaded(self) -> bool:
        """False before the first refresh, which compares every file."""
        return bool(self._stamps)

    def read_freshness(self) -> Freshness:
        """Return how fresh the files of a large tree are, as far as is known without looking at them."""
        return Freshness(self._total, len(self._pending) or int(self._tree.has_changes or not self._total))

    def refresh(
        self,
        seconds: float,
        *,
        wait: float = 0.0,
        scan: bool = True,
        thorough: bool = False,
        in_background: bool = False,
        progress: Progress = ignore_progress,
    ) -> Freshness:
        """Index changed files for `seconds`, at least one of them.

        While another thread refreshes, wait for it, but not longer than `wait`, then return without a refresh. With
        `scan=False`, continue with the files that are pending. `thorough` lists the tree again. `in_background` ends
        early when another thread waits, and indexes many changes, of which a search leaves all but the latest few.
        """
        if not self._acquire(wait, progress):
            return Freshness(self._total, max(1, len(self._pending)))
        try:
            is_first = self._stamps is None
            if scan or not self._pending:
                self._scan(thorough=thorough)
            # The time runs from after the scan: on a busy machine, a scan could use it up, and a single changed file
            # would be left for later.
            if self._pending:
                if len(self._pending) > MANY_CHANGES and not in_background and not is_first:
                    seconds = min(seconds, SHARE_SECONDS)
                try:
                    self._index_pending(time.monotonic() + seconds, in_background, progress)
                except ShopfloorError:
                    # The files whose write failed are no longer pending, and a watcher does not report them again.
                    self._stamps = None
                    raise
            progress(self._total - len(self._pending), self._total)
            return Freshness(self._total, len(self._pending))
        finally:
            self._lock.release()

    def _acquire(self, wait: float, progress: Progress) -> bool:
        """Take the lock, or return False after `wait` seconds."""
        if self._lock.acquire(blocking=False):
            return True
        with self._waiting_lock:
            self._waiting += 1
        try:
            # Waited for in short turns, so that the caller hears of the other thread's progress meanwhile.
            waits_until = time.monotonic() + wait
            while not self._lock.acquire(timeout=min(REPORT_SECONDS, max(0.0, waits_until - time.monotonic()))):
                progress(self._total - len(self._pending), self._total)
                if time.monotonic() >= waits_until:
                    return False
            return True
        finally:
            with self._waiting_lock:
                self._waiting -= 1

    def forget_stamps(self) -> None:
        """Compare every file with the store again at the next refresh."""
        with self._lock:
            self._stamps = None

    def _scan(self, *, thorough: bool) -> None:
        """Find the files that changed, and remove those that are gone from the index."""
        # Changes alone say nothing of files that were never compared with the store.
        compares_all = thorough or self._stamps is None
        if self._stamps is None:
            self._stamps = self._database.read(lambda uow: uow.index.stamps(), INDEX_OWNER)
        stamps = self._stamps
        changes = None if compares_all else self._tree.take_changes()
        if changes is not None:
            self._add_changes(changes)
            return
        stats = self._stats = self._tree.scan(thorough=thorough)
        changed = [path for path, stat in stats.items() if stamps.get(path) != stat.stamp]
        self._pending = sorted(changed, key=lambda path: stats[path].modified)
        self._total = len(stats)
        self._remove_files([path for path in stamps if path not in stats])

    def _add_changes(self, changes: Mapping[str, FileStat | None]) -> None:
        """Take over which files of a watched tree changed."""
        assert self._stamps is not None
        # The tree changes `_stats`, which it shares, itself.
        changed = {path for path, stat in changes.items() if stat and self._stamps.get(path) != stat.stamp}
        self._pending = [path for path in self._pending if path in self._stats and path not in changed]
        self._pending += sorted(changed, key=lambda path: self._stats[path].modified)
        self._total = len(self._stats)
        self._remove_files([path for path, stat in changes.items() if stat is None and path in self._stamps])

    def _remove_files(self, gone: Sequence[str]) -> None:
        assert self._stamps is not None
        for start in range(0, len(gone), ROWS_PER_TRANSACTION):
            paths = gone[start : start + ROWS_PER_TRANSACTION]
            self._database.write(lambda uow, paths=paths: uow.index.remove_files(paths), INDEX_OWNER)  # type: ignore[misc]
            for path in paths:
                del self._stamps[path]

    def _index_pending(self, deadline: float, in_background: bool, progress: Progress) -> None:
        """Index pending files until the deadline, at least one. While one batch is written, the next one is read."""
        batch: list[tuple[IndexedFile, list[IndexedChunk]]] = []
        with ThreadPoolExecutor(1, thread_name_prefix="shopfloor-index") as executor:
            writing: Future[None] | None = None
            while self._pending:
                # The file that was changed last comes first; see the order of `_scan`.
                path = self._pending.pop()
                batch.append(self._read_file(path, self._stats[path]))
                if time.monotonic() > deadline or (in_background and self._waiting):
                    break
                if sum(1 + len(chunks) for _, chunks in batch) >= ROWS_PER_TRANSACTION:
                    if writing is not None:
                        writing.result()
                        progress(self._total - len(self._pending) - len(batch), self._total)
                    writing = executor.submit(self._write_batch, batch)
                    batch = []
            if writing is not None:
                writing.result()
        if batch:
            self._write_batch(batch)

    def _read_file(self, path: str, stat: FileStat) -> tuple[IndexedFile, list[IndexedChunk]]:
        """Read and chunk a file. One that is binary or may not be read is indexed without chunks."""
        language = detect_language(path)
        try:
            data = self._files.read(path).data
        except ClientError:
            data = b"\0"
        file = IndexedFile(
            path=path,
            stamp=settled_stamp(stat, time.time_ns() // 1000),
            digest=digest_file(data),
            language=language,
            module=detect_module(path),
            role=detect_role(path),
            modified=stat.modified,
        )
        return file, [] if b"\0" in data else index_file(file, chunk_project_file(path, data), pack_word_counts)

    def _write_batch(self, batch: Batch) -> None:
        """Write files and their chunks. A file that was only touched keeps its chunks, and gets its new stamp."""
        assert self._stamps is not None
        stamps = self._stamps
        # What an older version chunked in its own way is chunked again, even if the content is the same.
        current = {file.path for file, _ in batch if stamps.get(file.path, "").startswith(f"{CHUNKING_VERSION}:")}

        def write(uow: UnitOfWork) -> None:
            digests = uow.index.digests([file.path for file, _ in batch])
            same = {file.path for file, _ in batch if digests.get(file.path) == file.digest and file.path in current}
            uow.index.replace_files([(file, chunks) for file, chunks in batch if file.path not in same])
            for file, _ in batch:
                if file.path in same:
                    uow.index.set_stamp(file.path, file.stamp)

        self._database.write(write, INDEX_OWNER)
        self._on_change()
        # After the commit, so that a file whose write failed is compared with the store again.
        for file, _ in batch:
            stamps[file.path] = file.stamp
