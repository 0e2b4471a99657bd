"""The tree of the project: its files, and when each last changed."""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from shopfloor.domain.chunks import CHUNKING_VERSION
from shopfloor.errors import Unavailable
from shopfloor.gateways.file_list import (
    GIT_RULES_FOLDER,
    MAX_AGE_SECONDS,
    RULE_FILES,
    SETTLED_NS,
    Facts,
    FileList,
    read_facts,
)
from shopfloor.gateways.files import MAX_FILE_BYTES, Files
from shopfloor.gateways.grep import Grep
from shopfloor.gateways.tree_watcher import TreeWatcher

MIN_WATCHED_FILES = 2_000
"""Number of files from which a watcher is used, if available. A stat of 10,000 files takes most of a search."""
MAX_FILES_PER_SCAN = 20_000
"""Maximum number of files that a search checks itself if there is no watcher. More take too long."""

WALK_SECONDS = 600.0
"""How often all files of a watched tree are checked, for changes that no watcher sees."""

_log = logging.getLogger("shopfloor.tree")


@dataclass(frozen=True, slots=True)
class FileStat:
    """A file as the file system reports it."""

    facts: Facts
    stamp: str
    """Changes when the file, or the way files are chunked, changes."""
    modified: int


class ProjectTree:
    """The files of a project that can be indexed. One thread at a time may scan it, or take changes."""

    def __init__(self, files: Files, grep: Grep) -> None:
        self._files = files
        self._grep = grep
        self._file_list = FileList(files, grep)
        self._stats: dict[str, FileStat] = {}
        """Every file as last found."""
        self._changed = threading.Event()
        self._has_hints = False
        self._may_watch = False
        self._watcher: TreeWatcher | None = None
        """Watches a tree that is not small, on Linux."""
        self._not_listed: set[str] = set()
        """New files that ignore rules exclude: their next change needs no new list."""

    @property
    def is_large(self) -> bool:
        """Return whether a scan takes too long for a search."""
        return len(self._file_list.paths) > MAX_FILES_PER_SCAN

    @property
    def is_watched(self) -> bool:
        """Return whether changes are known at once, without a scan."""
        return self._watcher is not None

    @property
    def has_changes(self) -> bool:
        """Return whether files have changed since the last check or, without a watcher, may have changed."""
        if self._watcher is not None:
            return self._watcher.wait(0)
        return self._changed.is_set() or not self._has_hints

    def notice_change(self) -> None:
        """Take a hint that files changed."""
        self._changed.set()

    def set_hinted(self, hinted: bool) -> None:
        """Set whether hints of changes arrive. Earlier changes are unknown, so the tree counts as changed."""
        self._has_hints = hinted
        self._changed.set()

    def allow_watching(self) -> None:
        """Watch the tree from its next scan on, unless it is small. A program that ends after one search does not need
        it."""
        self._may_watch = True

    def wait_for_change(self, seconds: float) -> bool:
        """Wait for a change of a tree that is watched."""
        watcher = self._watcher
        return watcher is not None and watcher.wait(seconds)

    def close(self) -> None:
        """Stop watching. The system has few queues per user."""
        watcher, self._watcher, self._may_watch = self._watcher, None, False
        if watcher is not None:
            watcher.close()

    def scan(self, *, thorough: bool = False) -> dict[str, FileStat]:
        """Return every file as it is now. List the files again if the list may be outdated, or if `thorough`."""
        with self._open_root() as root:
            # A large tree has too many folders to check before a search.
            current = not thorough and self._file_list.age <= MAX_AGE_SECONDS
            if current and self.is_large:
                current = self._has_hints and not self._changed.is_set()
            elif current:
                current = self._file_list.is_current(root)
            if not current:
                # Cleared before the list is made: a change during it is noticed again.
                self._changed.clear()
                self._file_list.refresh(watch=not self.is_large)
            while (
                len(self._file_list.paths) >= MIN_WATCHED_FILES
                and self._may_watch
                and self._watch((*self._file_list.watched_folders(), GIT_RULES_FOLDER))
            ):
                # A file may have been created in a folder between its listing and its watch.
                self._file_list.refresh(watch=False)
            self._not_listed = set()
            stats = {}
            for path in self._file_list.paths:
                if (found := self._read_stat(path, root)) is not None:
                    stats[path] = found
            self._stats = stats
            return stats

    def take_changes(self) -> dict[str, FileStat | None] | None:
        """Return the files that changed since the last call, None for a deleted file; or None if a scan is needed."""
        if self._watcher is None or self._file_list.age > WALK_SECONDS:
            return None
        changes = self._watcher.take()
        if changes.lost or any(path.endswith(RULE_FILES) for path in changes.paths):
            _log.info("scanning the whole tree", extra={"events_lost": changes.lost})
            return None
        with self._open_root() as root:
            touched = {path for path in changes.paths if path in self._stats}
            new = changes.paths - touched - self._not_listed
            if changes.folders or any(self._is_new_file(path, root) for path in new):
                added, gone = self._list_again()
                touched |= added | gone
                self._not_listed |= new - added
            found = {path: self._read_stat(path, root) for path in touched}
        for path, each in found.items():
            if each is None:
                self._stats.pop(path, None)
            else:
                self._stats[path] = each
        return found

    def _list_again(self) -> tuple[set[str], set[str]]:
        """List the files of a watched tree; return the new and the deleted ones."""
        before = set(self._stats)
        while True:
            self._file_list.refresh(watch=False, keep_age=True)
            added = set(self._file_list.paths) - before
            # A file may have been created in a folder between its listing and its watch.
            if not self._watch({folder for path in added for folder in _list_parents(path)}):
                return added, before - set(self._file_list.paths)

    def _watch(self, folders: Iterable[str]) -> int:
        """Watch further folders and return how many. Without enough watches, the tree is not watched at all."""
        try:
            if self._watcher is None:
                self._watcher = TreeWatcher(self._files.root, self._grep.is_searchable)
            return self._watcher.watch(folders)
        except OSError as error:
            if self._watcher is not None:
                self._watcher.close()
            limit = "fs.inotify.max_user_watches" if error.errno == errno.ENOSPC else "fs.inotify.max_user_instances"
            effect = "a search may miss recent changes" if self.is_large else "each search checks all of them"
            _log.warning("files are not watched, so %s: %s; raise %s", effect, error.strerror, limit)
            self._watcher, self._may_watch = None, False
            return 0

    def _is_new_file(self, path: str, root: int) -> bool:
        """Return whether an unknown path is a file that may belong on the list."""
        try:
            mode = os.stat(path, dir_fd=root, follow_symlinks=False).st_mode
        except OSError:
            return False
        return stat.S_ISREG(mode) and self._grep.is_searchable(path)

    def _read_stat(self, path: str, root: int) -> FileStat | None:
        try:
            found = read_facts(path, root)
        except OSError:
            return None
        before = self._stats.get(path)
        # Most files have not changed, and keep their object and its stamp.
        if before is not None and before.facts == found:
            return before
        if found[0] > MAX_FILE_BYTES:
            return None
        return FileStat(found, ":".join(map(str, (CHUNKING_VERSION, *found))), found[1] // 1000)

    @contextmanager
    def _open_root(self) -> Iterator[int]:
        try:
            root = os.open(self._files.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            # It may come back, such as a folder that is mounted or checked out again. With any other error, the
            # indexer's thread ended.
            raise Unavailable(f"The project folder cannot be opened: {error.strerror}.") from error
        try:
            yield root
        finally:
            os.close(root)


def _list_parents(path: str) -> Iterator[str]:
    """Yield the parent folders of a path, nearest first, without the root."""
    folder = path.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def settled_stamp(stat: FileStat, now: int) -> str:
    """Return the stamp to store, or '' for a file that was just written: its next change could look the same."""
    return stat.stamp if (now - stat.modified) * 1000 > SETTLED_NS else ""
