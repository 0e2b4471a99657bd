"""The tree: which files there are, and which of them look different from when they were indexed."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass

from shopfloor.domain.index import Hit
from shopfloor.gateways.files import LIMIT, Files
from shopfloor.gateways.grep import Grep

IGNORE_FILE = ".shopfloorignore"

LARGE = 20_000
"""Files that can be looked at before every search."""

_SETTLED_NS = 50_000_000
_STALE = 60.0


@dataclass(frozen=True, slots=True)
class Looks:
    """A file as it looks from outside."""

    facts: tuple[int, int, int]
    """Its size, and when it and what is known of it last changed, in nanoseconds."""
    stamp: str
    modified: int


class Tree:
    """The files of a project that can be indexed. One thread at a time brings the index up to date with it."""

    def __init__(self, files: Files, grep: Grep) -> None:
        self._files = files
        self._grep = grep
        self.turn = threading.Lock()
        self.wanted = threading.Event()
        """Set when there may be something to do."""
        self.working = False
        """Whether somebody is doing it already."""
        self.known: dict[str, str] | None = None
        """What is in the index, by path; None until it was looked up."""
        self.pending: list[str] = []
        """What is to be indexed, the latest last."""
        self.looks: dict[str, Looks] = {}
        """Every file as it looked when it was last looked at."""
        self.total = 0
        self.embedded: tuple[float, tuple[int, int]] | None = None
        """How many passages had a vector, of how many, and when that was counted."""
        self.unembedded: list[Hit] = []
        """Passages that get their vector next."""
        self._names: frozenset[bytes] = frozenset()
        self._paths: list[str] = []
        self._listed_at = 0.0
        self._stirred = threading.Event()
        self._watched = False

    def watched(self, watched: bool) -> None:
        """Whether somebody says when something stirs."""
        self._watched = watched
        self._stirred.set()

    def stir(self) -> None:
        """Something changed somewhere."""
        self._stirred.set()

    @property
    def large(self) -> bool:
        """Whether looking at everything takes too long to be done before a search."""
        return len(self._paths) > LARGE

    @property
    def stirred(self) -> bool:
        """Whether something changed since the files were last listed, as far as anybody said."""
        return self._stirred.is_set()

    def look(self, *, thoroughly: bool = False) -> dict[str, Looks]:
        """Every file as it looks now. A large tree is listed again when something stirred, or once in a while."""
        stale = not self._watched or time.monotonic() - self._listed_at > _STALE
        if not self._paths or not self.large or thoroughly or stale or self.stirred:
            self._stirred.clear()
            self._list(self._grep.names(self._files.root / IGNORE_FILE))
            self._listed_at = time.monotonic()
        return self._looks(self._paths)

    def _list(self, names: frozenset[bytes]) -> None:
        if names != self._names:
            self._paths = [path for name in names if (path := self._grep.path_of(name)) is not None]
            self._names = names

    def _looks(self, paths: list[str]) -> dict[str, Looks]:
        root = os.open(self._files.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        found = {}
        try:
            for path in paths:
                try:
                    status = os.stat(path, dir_fd=root, follow_symlinks=False)
                except OSError:
                    continue
                facts = status.st_size, status.st_mtime_ns, status.st_ctime_ns
                before = self.looks.get(path)
                if before is not None and before.facts == facts:
                    found[path] = before
                elif status.st_size <= LIMIT:
                    found[path] = Looks(facts, ":".join(map(str, facts)), status.st_mtime_ns // 1000)
        finally:
            os.close(root)
        return found


def settled(looks: Looks, now: int) -> str:
    """The stamp to remember: none for a file that was written a moment ago and may be written again unnoticed."""
    return looks.stamp if (now - looks.modified) * 1000 > _SETTLED_NS else ""
