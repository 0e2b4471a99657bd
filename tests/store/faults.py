"""A disk that fails on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw

BASE = apsw.vfs_names()[0]


class FailingDisk(apsw.VFS):
    """A file system for every database that is opened while it exists. `fail(operation, error, times)` makes its log fail."""

    def __init__(self) -> None:
        self._left = 0
        self._operation = ""
        self._error: Callable[[], Exception] = apsw.IOError
        self.failures = 0
        super().__init__("failing", BASE, makedefault=True)

    def fail(self, operation: str, error: Callable[[], Exception], times: int) -> None:
        self._operation, self._error, self._left = operation, error, times

    def fail_if_due(self, operation: str) -> None:
        if self._left and operation == self._operation:
            self._left -= 1
            self.failures += 1
            raise self._error()

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        if flags[0] & apsw.SQLITE_OPEN_WAL:
            return _FailingFile(self, name, flags)
        return apsw.VFSFile(BASE, name, flags)


class _FailingFile(apsw.VFSFile):
    def __init__(self, disk: FailingDisk, name: Any, flags: list[int]) -> None:
        super().__init__(BASE, name, flags)
        self._disk = disk

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        self._disk.fail_if_due("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.fail_if_due("sync")
        super().xSync(flags)
