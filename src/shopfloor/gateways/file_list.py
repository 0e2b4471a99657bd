"""The list of files in a project, made by ripgrep, and a cheap check that it is still current.

A file that is created, deleted or renamed changes its folder. As long as no watched folder and no ignore rule has
changed, the list is current. Measured on 640 files in 70 folders: 4 ms for a check, 59 ms for a list.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Iterator

from shopfloor.errors import Unavailable
from shopfloor.gateways.files import Files
from shopfloor.gateways.grep import Grep

IGNORE_FILE = ".shopfloorignore"

SETTLED_NS = 50_000_000
"""Age of a change beyond which the next change has a different timestamp: file system clocks are coarse."""

MAX_WATCHED = 5_000
"""Maximum number of watched folders and rules. A tree with more is listed every time."""

MAX_UNLISTED_FOLDERS = 32
"""Maximum number of folders in a tree without listed files that are all watched.

Such a tree is ignored, holds only ignored files, or is empty; only ripgrep knows which. Small trees are watched
completely, so that the first file in a new folder is noticed. In large ones (`.venv`, `target`) only the top folder is
watched, and a new file deep inside is noticed when the list is refreshed, after MAX_AGE_SECONDS.
"""

MAX_AGE_SECONDS = 60.0

GIT_RULES_FOLDER = ".git/info"
RULE_FILES = (".gitignore", ".ignore", ".rgignore", IGNORE_FILE, f"{GIT_RULES_FOLDER}/exclude")

Facts = tuple[int, int, int]

_log = logging.getLogger("shopfloor.tree")


class FileList:
    """The files of a project that can be indexed, by name."""

    def __init__(self, files: Files, grep: Grep) -> None:
        self._files = files
        self._grep = grep
        self._names: frozenset[bytes] = frozenset()
        self._watched: dict[str, Facts] = {}
        self._made_at = 0.0
        self._failed_at = -math.inf
        self.paths: list[str] = []

    @property
    def age(self) -> float:
        """Age of the list, in seconds."""
        return time.monotonic() - self._made_at if self.paths else math.inf

    def is_current(self, root: int) -> bool:
        """Check that no watched folder or rule has changed. `root` is a descriptor of the project."""
        try:
            return bool(self._watched) and all(read_facts(path, root) == seen for path, seen in self._watched.items())
        except OSError:
            return False

    def refresh(self, *, watch: bool, keep_age: bool = False) -> None:
        """List all files; with `watch`, also record the state of their folders. If that takes too long, the earlier
        list stays."""
        # Taken before ripgrep runs: a change during the run counts as a change of this moment.
        began = time.time_ns()
        names = self._list_names()
        if names is None:
            if not self.paths:
                raise Unavailable("The files of the project cannot be listed", hint="Is a .gitignore in it a pipe?")
            return
        if names != self._names:
            self.paths = [path for name in names if (path := self._grep.to_path(name)) is not None]
            self._names = names
        self._watched = self._read_watched(began - SETTLED_NS) if watch else {}
        if not keep_age:
            self._made_at = time.monotonic()

    def _list_names(self) -> frozenset[bytes] | None:
        """Return the names of all files, or None if they cannot be listed in time, now or a minute ago."""
        if time.monotonic() - self._failed_at < MAX_AGE_SECONDS:
            return None
        names = self._grep.list_files(self._files.root / IGNORE_FILE)
        if names is None:
            self._failed_at = time.monotonic()
            _log.warning("the files of the project cannot be listed in time; is a .gitignore in it a pipe?")
        return names

    def _read_watched(self, settled: int) -> dict[str, Facts]:
        """Read the facts of every watched folder and rule. Return nothing if one of them has just changed."""
        watched: dict[str, Facts] = {}
        root = os.open(self._files.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for folder in self.watched_folders():
                for path in (folder or ".", *(_join(folder, rule) for rule in RULE_FILES)):
                    # Most folders have no rules.
                    try:
                        watched[path] = read_facts(path, root)
                    except OSError:
                        continue
                    # A change within the clock's last tick could be followed by one with the same time.
                    if max(watched[path][1:]) > settled or len(watched) > MAX_WATCHED:
                        return {}
        finally:
            os.close(root)
        return watched

    def watched_folders(self) -> Iterator[str]:
        """Yield the folders in which a file that belongs on the list may appear."""
        # Every folder with a listed file somewhere below it. ripgrep's names are bytes that start with "./".
        ancestors: set[bytes] = set()
        for name in self._names:
            above = name.rpartition(b"/")[0]
            while above and above not in ancestors:
                ancestors.add(above)
                above = above.rpartition(b"/")[0]
        listed = {os.fsdecode(above.removeprefix(b"./")) for above in ancestors}
        pending = [""]
        while pending:
            folder = pending.pop()
            yield folder
            for inner in self._subfolders(folder):
                if inner in listed:
                    pending.append(inner)
                    continue
                # All folders of a tree without listed files, or only its top folder if there are too many.
                unlisted = [inner]
                for each in unlisted:
                    unlisted += self._subfolders(each)
                    if len(unlisted) > MAX_UNLISTED_FOLDERS:
                        unlisted = [inner]
                        break
                yield from unlisted

    def _subfolders(self, folder: str) -> list[str]:
        inner = (_join(folder, name) for name in self._files.list_names(folder, folders=True))
        return [path for path in inner if self._grep.is_searchable(path)]


def read_facts(path: str, root: int) -> Facts:
    """Return size, modification time and change time of a file or folder, without following a link."""
    status = os.stat(path, dir_fd=root, follow_symlinks=False)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
