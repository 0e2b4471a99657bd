"""The indexer: brings the index up to date when something stirs, and makes vectors while nobody calls.

What it has done is in the store, so that it goes on there after any end. Watching the files is only a hint: a search
looks for itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from watchfiles import DefaultFilter, watch

from shopfloor.domain.actors import OPERATOR
from shopfloor.domain.paths import EXCLUDED
from shopfloor.errors import ShopfloorError
from shopfloor.gateways.embeddings import Embeddings, Off
from shopfloor.gateways.files import Files
from shopfloor.gateways.tree import Tree
from shopfloor.repositories.work import Outside, Works
from shopfloor.usecases import index

_SLICE = 0.25
_BATCH = 8
_COURTESY = 1.0
_POLL = 60.0

_log = logging.getLogger("shopfloor.indexer")

Progress = Callable[[str, int, int], None]


class Indexer:
    """One thread that indexes, and one that watches."""

    def __init__(self, works: Works) -> None:
        self._works = works
        self._outside = Outside(works, OPERATOR, 0)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.busy: Callable[[], bool] = lambda: False
        """Whether calls are under way, which go first."""

    @property
    def _tree(self) -> Tree:
        return self._outside.the(Tree)

    def start(self, *, at_once: bool) -> None:
        """Begin; at once, or when the first search asks for it."""
        if at_once:
            self._tree.wanted.set()
        self._thread = threading.Thread(target=self._run, name="shopfloor-indexer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._tree.wanted.set()
        if self._thread is not None:
            self._thread.join()

    def state(self) -> dict[str, Any]:
        """How far it is, for people and metrics."""
        embeddings = self._outside.the(Embeddings)  # type: ignore[type-abstract]
        made, passages = self._outside.read(lambda work: work.index.vector_progress(embeddings.name))
        return {
            "files": self._tree.total,
            "filesPending": len(self._tree.pending),
            "passages": passages,
            "vectors": made,
            "embeddings": embeddings.name
            + ("" if embeddings.ready() or embeddings.name == Off.name else ", not there yet"),
        }

    def catch_up(self, progress: Progress = lambda _, __, ___: None, *, vectors: bool = True) -> dict[str, Any]:
        """Do everything there is to do, now, on this thread."""
        first = True
        while first or self._tree.pending:
            index.refresh(
                self._outside,
                _SLICE * 4,
                patience=30.0,
                thoroughly=True,
                look=first,
                progress=lambda done, total: progress("files", done, total),
            )
            first = False
        index.catch_up(self._outside)
        embeddings = self._outside.the(Embeddings)  # type: ignore[type-abstract]
        while vectors and index.embed(self._outside, _BATCH * 8):
            progress("vectors", *self._outside.read(lambda work: work.index.vector_progress(embeddings.name)))
        return self.state()

    def _run(self) -> None:
        tree = self._tree
        watching = False
        while True:
            tree.wanted.wait(_POLL if watching else None)
            if self._stopping.is_set():
                return
            if not watching:
                watching = True
                threading.Thread(target=self._watch, name="shopfloor-watcher", daemon=True).start()
            tree.wanted.clear()
            tree.working = True
            try:
                self._round()
            except ShopfloorError as error:
                _log.warning(
                    "indexing waits: %s", ": ".join([error.message, *filter(None, [error.facts.get("details")])])
                )
                self._stopping.wait(1.0)
            finally:
                tree.working = False

    def _round(self) -> None:
        """All that is to be done, a little at a time, so that calls come between."""
        self._index()
        while not self._stopping.is_set():
            started = time.monotonic()
            if not index.embed(self._outside, _BATCH):
                return
            self._stopping.wait(min(0.2, (time.monotonic() - started) / 4))
            self._let_calls_go_first()
            if self._tree.wanted.is_set():  # newer words go before older vectors
                return

    def _index(self) -> None:
        began, slices = time.monotonic(), 0
        while not self._stopping.is_set():
            slices += 1
            if index.refresh(self._outside, _SLICE, patience=1.0, look=slices == 1).complete:
                break
            self._stopping.wait(0.01)
        index.catch_up(self._outside)
        if slices > 1:
            seconds = round(time.monotonic() - began, 2)
            _log.info("index is up to date", extra={"files": self._tree.total, "seconds": seconds})

    def _let_calls_go_first(self) -> None:
        until = time.monotonic() + _COURTESY
        while self.busy() and time.monotonic() < until and not self._stopping.is_set():
            self._stopping.wait(0.02)

    def _watch(self) -> None:
        tree = self._tree
        root = self._outside.the(Files).root
        quiet = DefaultFilter(ignore_dirs=(*DefaultFilter.ignore_dirs, *EXCLUDED, ".shopfloor", ".cache"))
        try:
            tree.watched(True)
            changes = watch(root, watch_filter=quiet, debounce=200, step=50, stop_event=self._stopping, recursive=True)
            for _ in changes:
                tree.stir()
                tree.wanted.set()
        except (OSError, RuntimeError) as error:
            _log.info("files are not watched: %s", error)
        finally:
            tree.watched(False)
