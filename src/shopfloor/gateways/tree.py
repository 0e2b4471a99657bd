"""The tree: which files there are, and which of them look different from when they were indexed."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

from shopfloor.domain.chunks import VERSION
from shopfloor.domain.index import Hit
from shopfloor.gateways.files import LIMIT, Files
from shopfloor.gateways.grep import Grep
from shopfloor.gateways.listing import SETTLED_NS, Facts, Listing, facts

LARGE = 20_000
"""Files that can be looked at before every search."""


@dataclass(frozen=True, slots=True)
class Looks:
    """A file as it looks from outside."""

    facts: Facts
    stamp: str
    modified: int


class Tree:
    """The files of a project that can be indexed. One thread at a time brings the index up to date with it."""

    def __init__(self, files: Files, grep: Grep) -> None:
        self._files = files
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
        self._listing = Listing(files, grep)
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
        return len(self._listing.paths) > LARGE

    @property
    def stirred(self) -> bool:
        """Whether something changed since the files were last listed, as far as anybody said."""
        return self._stirred.is_set()

    def look(self, *, thoroughly: bool = False) -> dict[str, Looks]:
        """Every file as it looks now."""
        root = os.open(self._files.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if thoroughly or self._listing.stale or not self._same(root):
                self._stirred.clear()
                self._listing.make(marked=not self.large)
            return self._looks(self._listing.paths, root)
        finally:
            os.close(root)

    def _same(self, root: int) -> bool:
        """Whether the same files are there: of a large tree it is not looked for, but heard."""
        return (self._watched and not self.stirred) if self.large else self._listing.holds(root)

    def _looks(self, paths: list[str], root: int) -> dict[str, Looks]:
        found = {}
        for path in paths:
            try:
                seen = facts(path, root)
            except OSError:
                continue
            before = self.looks.get(path)
            if before is not None and before.facts == seen:
                found[path] = before
            elif seen[0] <= LIMIT:
                found[path] = Looks(seen, ":".join(map(str, (VERSION, *seen))), seen[1] // 1000)
        return found


def settled(looks: Looks, now: int) -> str:
    """The stamp to remember: none for a file that was written a moment ago and may be written again unnoticed."""
    return looks.stamp if (now - looks.modified) * 1000 > SETTLED_NS else ""
