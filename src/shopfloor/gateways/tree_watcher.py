"""Watches the folders of a project with inotify, and returns all changes up to the moment of the call.

The kernel queues an event before the call that caused it returns. A read of the queue therefore sees every change that
was made before it, without waiting. watchfiles cannot promise that: it delays changes, and drops the kernel's report
that the queue has overflowed. Changes that inotify does not see (through mmap, on network file systems by another
machine) are found by the next walk of the tree.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

MAX_NEW_FOLDERS = 32
"""Folders of a new tree that are watched before its files are listed: it may be ignored and have thousands."""

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _UNMOUNT, _OVERFLOW, _IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
_ONLY_FOLDERS, _NO_LINKS, _IS_FOLDER = 0x01000000, 0x02000000, 0x40000000
_WATCHED = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
) | (_ONLY_FOLDERS | _NO_LINKS)
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 18


@dataclass(slots=True)
class Changes:
    """Changes since the last call."""

    paths: set[str] = field(default_factory=set)
    """Files that were written, created, moved or deleted."""
    folders: bool = False
    """Whether a folder was created, moved or deleted."""
    lost: bool = False
    """Whether changes may be missing, so that the whole tree must be scanned."""


class TreeWatcher:
    """One inotify queue. Not thread-safe, except for `wait`."""

    def __init__(self, root: Path, is_searchable: Callable[[str], bool]) -> None:
        """Open a queue, or raise OSError if inotify is unavailable or no queue is left."""
        self._root = os.fsencode(root)
        self._is_searchable = is_searchable
        self._descriptor = _call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        self._paths: dict[int, str] = {}
        self._watches: dict[str, int] = {}

    def close(self) -> None:
        """Close the queue."""
        os.close(self._descriptor)

    def watch(self, folders: Iterable[str]) -> int:
        """Watch further folders and return how many. Raise OSError when the system allows no more."""
        added = 0
        for folder in folders:
            if folder not in self._watches and self._add(folder):
                added += 1
        return added

    def wait(self, seconds: float) -> bool:
        """Wait for a change; return False after that time, or if the queue is closed."""
        try:
            return bool(select.select([self._descriptor], [], [], seconds)[0])
        except (OSError, ValueError):
            return False

    def take(self) -> Changes:
        """Return all changes up to now. New folders are watched from here on."""
        changes = Changes()
        while True:
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                return changes
            at = 0
            while at < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, at)
                name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
                at += _EVENT.size + length
                self._read_event(changes, watch, mask, os.fsdecode(name))

    def _read_event(self, changes: Changes, watch: int, mask: int, name: str) -> None:
        folder = self._paths.get(watch)
        if mask & (_OVERFLOW | _UNMOUNT):
            changes.lost = True
        elif folder is None:
            return
        elif mask & _IGNORED:
            del self._paths[watch]
            if self._watches.get(folder) == watch:
                del self._watches[folder]
        elif mask & (_DELETE_SELF | _MOVE_SELF):
            # For every folder but the root, the parent's event reports the same.
            changes.lost |= not folder
        elif mask & _IS_FOLDER:
            path = f"{folder}/{name}" if folder else name
            if mask & (_CREATE | _MOVED_TO | _MOVED_FROM | _DELETE) and self._is_searchable(path):
                changes.folders = True
                if mask & _MOVED_FROM:
                    self._forget(path)
                elif mask & (_CREATE | _MOVED_TO):
                    self._watch_new(path, changes)
        else:
            changes.paths.add(f"{folder}/{name}" if folder else name)

    def _watch_new(self, folder: str, changes: Changes) -> None:
        """Watch a new folder and its subfolders, up to the limit. Their files are listed afterwards."""
        pending = [folder]
        for each in pending:
            try:
                self._add(each)
                with os.scandir(self._root + b"/" + os.fsencode(each)) as entries:
                    inner = [os.fsdecode(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]
            except OSError as error:
                # It may be gone already, which is harmless. Running out of watches is not.
                changes.lost |= error.errno in (errno.ENOSPC, errno.ENOMEM)
                continue
            pending += [path for name in inner if self._is_searchable(path := f"{each}/{name}")]
            if len(pending) > MAX_NEW_FOLDERS:
                return

    def _forget(self, folder: str) -> None:
        """Stop watching a folder that was moved away: its events would have its old name."""
        for path in [path for path in self._watches if f"{path}/".startswith(f"{folder}/")]:
            watch = self._watches.pop(path)
            self._paths.pop(watch, None)
            try:
                _call("inotify_rm_watch", self._descriptor, watch)
            except OSError:
                continue

    def _add(self, folder: str) -> bool:
        place = self._root + b"/" + os.fsencode(folder)
        try:
            watch = _call("inotify_add_watch", self._descriptor, place, ctypes.c_uint32(_WATCHED))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP):
                return False
            raise
        self._paths[watch] = folder
        self._watches[folder] = watch
        return True


@cache
def _load_library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> int:
    """Call a function of the C library; raise OSError if it fails."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "inotify exists only on Linux")
    result = int(getattr(_load_library(), name)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
