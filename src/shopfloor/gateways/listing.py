"""The listing of a tree, made by ripgrep, and what tells that it still holds: its folders, and the rules of ignoring.

A file that comes, goes or is renamed changes its folder; so as long as no folder and no rule looks different, the
same files are there. Looking at some folders costs less than a listing.
"""

from __future__ import annotations

import os
import time

from shopfloor.gateways.files import Files
from shopfloor.gateways.grep import Grep

IGNORE_FILE = ".shopfloorignore"

SETTLED_NS = 50_000_000
"""How old a change must be before the next one is sure to look different: clocks of file systems tick slowly."""

MOST = 5_000
"""Folders and rules that are looked at; a tree with more of them is listed every time."""

_RULES = (".gitignore", ".ignore", ".rgignore", IGNORE_FILE, ".git/info/exclude")
_STALE = 60.0

Facts = tuple[int, int, int]


class Listing:
    """The files of a project that can be indexed, by name."""

    def __init__(self, files: Files, grep: Grep) -> None:
        self._files = files
        self._grep = grep
        self._names: frozenset[bytes] = frozenset()
        self._marks: dict[str, Facts] = {}
        self._made_at = 0.0
        self.paths: list[str] = []

    @property
    def stale(self) -> bool:
        """Whether it was made so long ago that it is made again, come what may."""
        return not self.paths or time.monotonic() - self._made_at > _STALE

    def holds(self, root: int) -> bool:
        """Whether the same files are there, as far as their folders tell."""
        try:
            return bool(self._marks) and all(facts(path, root) == mark for path, mark in self._marks.items())
        except OSError:
            return False

    def make(self, *, marked: bool) -> None:
        """List everything, and mark by what it can be told to hold, if that is wanted."""
        began = time.time_ns()
        names, ignored = self._grep.names(self._files.root / IGNORE_FILE, marked)
        if names != self._names:
            self.paths = [path for name in names if (path := self._grep.path_of(name)) is not None]
            self._names = names
        self._marks = self._marked(ignored, began - SETTLED_NS) if marked else {}
        self._made_at = time.monotonic()

    def _marked(self, ignored: frozenset[str], settled: int) -> dict[str, Facts]:
        """Every folder that could hold a file to be listed, and every rule; none when something changed just now."""
        marks: dict[str, Facts] = {}
        pending = [""]
        root = os.open(self._files.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            while pending:
                folder = pending.pop()
                for path in (folder or ".", *(_below(folder, rule) for rule in _RULES)):
                    try:
                        marks[path] = facts(path, root)
                    except OSError:
                        continue  # most folders have no rules
                    if max(marks[path][1:]) > settled or len(marks) > MOST:
                        return {}
                inner = (_below(folder, name) for name in self._files.names(folder, folders=True))
                pending += [path for path in inner if path not in ignored and self._grep.searchable(path)]
        finally:
            os.close(root)
        return marks


def facts(path: str, root: int) -> Facts:
    """What a file or folder looks like from outside: its size, and when it and what is known of it last changed."""
    status = os.stat(path, dir_fd=root, follow_symlinks=False)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
