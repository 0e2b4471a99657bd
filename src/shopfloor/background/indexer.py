"""The background threads that keep the index up to date and watch the files.

All progress is in the store, so an update continues after a crash too. Watching the files only saves work: unless
the tree is large, a search checks for changes itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from watchfiles import DefaultFilter, watch

from shopfloor.domain.paths import EXCLUDED
from shopfloor.errors import ShopfloorError
from shopfloor.search.index import SearchIndex

SLICE_SECONDS = 0.25
SLICE_PAUSE_SECONDS = 0.01
WAIT_SECONDS = 1.0
"""How long the indexer waits for a search that refreshes the index."""

CHUNKS_PER_SLICE = 8
"""Chunks embedded per slice; calls run between slices."""
MAX_EMBEDDING_PAUSE_SECONDS = 0.2
YIELD_SECONDS = 1.0
"""How long embedding waits for running calls to end."""
YIELD_CHECK_SECONDS = 0.02

WATCH_SECONDS = 1.0
DEBOUNCE_SECONDS = 0.2

POLL_SECONDS = 60.0
ERROR_PAUSE_SECONDS = 1.0
IGNORED_FOLDERS = (*EXCLUDED, ".shopfloor", ".cache")

_log = logging.getLogger("shopfloor.indexer")


class Indexer:
    """Updates the index when a search, the watcher or a timer requests it, and embeds chunks between calls."""

    def __init__(self, index: SearchIndex, root: Path, is_busy: Callable[[], bool]) -> None:
        self._index = index
        self._root = root
        self._is_busy = is_busy
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, *, at_once: bool) -> None:
        """Start the thread. It indexes files immediately or after the first search."""
        if at_once:
            self._index.request_update()
        self._thread = threading.Thread(target=self._run, name="shopfloor-indexer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop both threads, and release the threads of the index."""
        self._stopping.set()
        self._index.request_update()
        if self._thread is not None:
            self._thread.join()
        self._index.close()

    def _run(self) -> None:
        watching = False
        self._index.allow_watching()
        while True:
            requested = self._index.wait_for_request(POLL_SECONDS)
            if self._stopping.is_set():
                return
            try:
                if requested or watching:
                    with self._index.updating():
                        self._update()
                    # After the first scan, which shows whether the tree is large.
                    if not watching:
                        watching = True
                        threading.Thread(target=self._watch, name="shopfloor-watcher", daemon=True).start()
                else:
                    # Marks of changed documents must not pile up, even without a search.
                    self._index.documents.update()
            except ShopfloorError as error:
                _log.warning(
                    "indexing failed: %s", ": ".join([error.message, *filter(None, [error.facts.get("details")])])
                )
                self._stopping.wait(ERROR_PAUSE_SECONDS)

    def _update(self) -> None:
        """Index, then embed in small slices, so that calls run in between."""
        self._index_changes()
        while not self._stopping.is_set():
            started = time.monotonic()
            if not self._index.embeddings.embed_next(CHUNKS_PER_SLICE):
                return
            # Embedding uses half of the cores. It pauses for a quarter of its time and then until calls have ended, but
            # not forever: a busy server gets its embeddings too.
            self._stopping.wait(min(MAX_EMBEDDING_PAUSE_SECONDS, (time.monotonic() - started) / 4))
            deadline = time.monotonic() + YIELD_SECONDS
            while self._is_busy() and time.monotonic() < deadline and not self._stopping.is_set():
                self._stopping.wait(YIELD_CHECK_SECONDS)
            # Changed text becomes searchable by words before old text gets embeddings.
            if self._index.has_request:
                return

    def _index_changes(self) -> None:
        started, slices = time.monotonic(), 0
        while not self._stopping.is_set():
            slices += 1
            files = self._index.files
            if files.refresh(SLICE_SECONDS, wait=WAIT_SECONDS, scan=slices == 1, in_background=True).complete:
                break
            self._stopping.wait(SLICE_PAUSE_SECONDS)
        self._index.documents.update()
        if slices > 1:
            seconds = round(time.monotonic() - started, 2)
            _log.info("index is up to date", extra={"files": self._index.files.total, "seconds": seconds})

    def _watch(self) -> None:
        while self._index.is_watched and not self._stopping.is_set():
            if self._index.wait_for_change(WATCH_SECONDS):
                self._index.request_update()
                # The update consumes the changes; until then the queue stays readable.
                self._stopping.wait(DEBOUNCE_SECONDS)
        if not self._stopping.is_set():
            self._take_hints()

    def _take_hints(self) -> None:
        """Request an update when files change, until the program stops."""
        not_ignored = DefaultFilter(ignore_dirs=(*DefaultFilter.ignore_dirs, *IGNORED_FOLDERS))
        # Watching may fail, for example at the system's limit of watches. The index then checks for changes itself.
        try:
            self._index.set_hinted(True)
            for _ in watch(
                self._root, watch_filter=not_ignored, debounce=200, step=50, stop_event=self._stopping, recursive=True
            ):
                self._index.notice_change()
        except (OSError, RuntimeError) as error:
            _log.info("files are not watched: %s", error)
        finally:
            self._index.set_hinted(False)
