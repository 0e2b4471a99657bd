"""The database file of SQLite: whether it is still the file that was opened.

An open descriptor keeps working after its file was deleted or replaced. Without this check, ten mails were
acknowledged into a file that a restore had replaced, and were gone after the next start.
"""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
from pathlib import Path

import apsw

from shopfloor.errors import ShopfloorError, StartupError, StoreDamaged, StoreFull, StoreReplaced, StoreUnreachable

RESERVE_BYTES = 4 * 1024 * 1024
"""Free space that a store needs to be ready. A reused WAL needs none until it grows."""


class DatabaseFile:
    """The file behind the open connections. Once it was replaced or damaged, `failure` stays set."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failure: ShopfloorError | None = None
        self.damage: StoreDamaged | None = None
        found = path.stat()
        self._identity = (found.st_dev, found.st_ino)

    def check(self) -> None:
        """Raise StoreReplaced if the path no longer leads to the open file, or did not at an earlier check."""
        # A stat costs 1 µs, a commit 100 times as much. One failed check is final: the open file and a new one at its
        # path must never both be written to.
        if self.failure is None:
            try:
                found = os.stat(self.path)  # noqa: PTH116 - half the time of Path.stat, before each commit
            except (FileNotFoundError, NotADirectoryError):
                self.failure = StoreReplaced()
            except OSError as error:
                raise StoreUnreachable(f"The database file cannot be read: {error.strerror}.") from error
            else:
                # A database in WAL mode always has a first page. Only a truncation makes it empty.
                if (found.st_dev, found.st_ino) != self._identity or found.st_size == 0:
                    self.failure = StoreReplaced()
        if self.failure is not None:
            raise StoreReplaced

    def check_space(self) -> None:
        """Raise StoreFull if the disk is too full for the next commits."""
        try:
            with tempfile.TemporaryFile(dir=self.path.parent) as file:
                os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise StoreFull from error
            raise StoreUnreachable(f"The data folder cannot be written to: {error.strerror}.") from error


def refuse_emptied(path: Path) -> None:
    """Refuse an empty file that was a database before: SQLite would silently create it again, without its rows."""
    # The version file is created after the schema and checked first: a database that another process is just creating
    # is never refused.
    if Path(f"{path}-epoch").exists() and path.exists() and path.stat().st_size == 0:
        raise StartupError(
            f"{path} is empty, but it was a database before. Restore a backup, or delete it to start with a new one"
        )


def keep_wal_at_close(raw: apsw.Connection) -> None:
    """Leave the WAL file alone when the connection closes: it may belong to another database of that name by now."""
    persist = ctypes.c_int(1)
    raw.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(persist))
