"""SQLite: the store that needs no set-up."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import apsw

from shopfloor.errors import StartRefused, StoreUnreachable
from shopfloor.store.epoch import Epoch
from shopfloor.store.interface import Callback, Connection, Engine
from shopfloor.store.listeners import guarded
from shopfloor.store.migrate import CURRENT, Migration, missing
from shopfloor.store.sqlite_connection import SqliteConnection, translated
from shopfloor.store.sqlite_writer import BUSY_MS, SqliteWriter

IDLE_READERS = 64
"""Kept for the next reader: to open one costs as much as a whole call, and a floor has as many under way."""
STATEMENTS = 500
VERSION_TABLE = """
CREATE TABLE IF NOT EXISTS schema_version (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL
) STRICT"""

# fmt: off
NETWORK = frozenset({
    "nfs", "nfs3", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "ncpfs", "glusterfs", "ceph", "lustre", "beegfs",
    "davfs", "gpfs", "orangefs", "pvfs2", "fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs", "fuse.ceph",
    "fuse.ceph-fuse", "fuse.gcsfuse", "fuse.goofys", "fuse.davfs", "fuse.davfs2", "fuse.juicefs", "fuse.blobfuse",
    "fuse.blobfuse2", "fuse.mfs", "fuse.lizardfs", "fuse.smbnetfs",
})
# fmt: on

T = TypeVar("T")


class SqliteStore:
    """A database file, or without a path a private one that goes away with the store."""

    engine: Engine = "sqlite"
    commit_may_be_unknown: bool = False

    def __init__(self, path: Path | None, migrations: list[Migration]) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if path is None:
            self._folder = tempfile.TemporaryDirectory(prefix="shopfloor-")
            path = Path(self._folder.name, "private.db")
        _refuse_network(path)
        self._path = path
        self._raw = _open_writer(path, durable=self._folder is None, migrations=migrations)
        self._readers: list[apsw.Connection] = []
        self._closed = False
        self._epoch = _epoch(path)
        self._writer = SqliteWriter(self._raw, self._epoch)
        self._jobs = self._writer.jobs

    def write(self, fn: Callable[[Connection], T]) -> T:
        answer: T = self._jobs.run(fn)
        return answer

    def later(self, fn: Callable[[Connection], Any]) -> None:
        self._jobs.defer(fn)

    def flush(self) -> None:
        self._jobs.run(lambda _: None)  # the queue keeps its order

    def read(self, fn: Callable[[Connection], T]) -> T:
        raw = self._borrow()
        run = raw.execute
        conn = SqliteConnection(raw, run, [])
        try:
            run("BEGIN")
            result = fn(conn)
            conn.settle()
            return result
        finally:
            conn.end()
            if raw.in_transaction:
                run("ROLLBACK")
            self._give_back(raw)

    def listen(self, callback: Callback) -> Callable[[], None]:
        end = self._writer.listeners.add(callback)
        self._jobs.wake()
        return end

    def epoch(self) -> int | None:
        return None if self._closed else self._epoch.now

    def gauges(self) -> dict[str, float]:
        return {
            "queue_depth": len(self._jobs),
            "wal_bytes": _size(f"{self._path}-wal"),
            "database_bytes": _size(self._path),
            "commits": self._writer.commits,
            "writes": self._writer.writes,
        }

    def on_batch(self, observer: Callable[[int], None]) -> None:
        self._writer.observers = (*self._writer.observers, guarded(observer))

    def check(self) -> None:
        if not self._path.exists():
            raise StoreUnreachable("The database file is gone.")
        self.write(_rewrite_header)

    def close(self) -> None:
        if self._closed:
            return
        self._writer.close()
        self._closed = True
        while self._readers:
            self._readers.pop().close()
        self._raw.set_busy_timeout(0)
        with suppress(apsw.Error):
            self._raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._raw.close()
        self._epoch.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _borrow(self) -> apsw.Connection:
        if self._closed:
            raise StoreUnreachable("The store is closed.")
        try:
            return self._readers.pop()
        except IndexError:
            return _open_reader(self._path)

    def _give_back(self, raw: apsw.Connection) -> None:
        if self._closed or len(self._readers) >= IDLE_READERS:
            raw.close()
        else:
            self._readers.append(raw)


def _epoch(path: Path) -> Epoch:
    try:
        return Epoch(Path(f"{path}-epoch"))
    except OSError as error:
        raise StoreUnreachable(f"The file {path}-epoch cannot be made: {error.strerror}.") from error


def sqlite_schema_version(path: Path) -> int:
    """The number of the last applied migration; 0 for a file that is not there or empty."""
    if not path.exists():
        return 0
    raw = _open_reader(path)
    try:
        return _version(raw)
    except apsw.Error as error:
        raise translated(error) from error
    finally:
        raw.close()


def network_filesystem(path: Path, mountinfo: str | None = None) -> str | None:
    """The kind of network file system that `path` lies on, or None for a local one."""
    if mountinfo is None:
        try:
            mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
    parts = Path(os.path.realpath(path)).parts
    deepest, kind = 0, ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        mount = Path(_unescape(before.split(" ")[4])).parts
        if len(mount) >= deepest and parts[: len(mount)] == mount:
            deepest, kind = len(mount), after.split(" ")[0]
    return kind if kind in NETWORK else None


def _refuse_network(path: Path) -> None:
    kind = network_filesystem(path)
    if kind is not None:
        raise StartRefused(
            f"The database would lie on a network file system ({kind}), where SQLite loses data. "
            "Move the data folder to a local disk, or use PostgreSQL."
        )


def _open_writer(path: Path, *, durable: bool, migrations: list[Migration]) -> apsw.Connection:
    _create(path)
    try:
        raw = _open(path)
        _switch_to_wal(raw)
        raw.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}").fetchall()
        raw.execute("PRAGMA cache_size = -16000").fetchall()
        raw.execute("PRAGMA temp_store = MEMORY").fetchall()  # savepoints copy pages, which would go through a file
        _migrate(raw, migrations)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StartRefused(
            f"{path} is damaged, or no database at all. Put a copy of it back, or move it away and start anew"
        ) from error
    except apsw.CantOpenError as error:
        raise StartRefused(f"{path} cannot be opened: it has to be a file that you may read and write") from error
    except apsw.Error as error:
        raise translated(error) from error
    return raw


def _create(path: Path) -> None:
    """Make the file, for its owner only. One that exists is left alone: closing it would drop this process's locks."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise StoreUnreachable(f"The database file cannot be created: {error.strerror}.") from error


def _open_reader(path: Path) -> apsw.Connection:
    try:
        raw = _open(path)
        raw.execute("PRAGMA query_only = ON").fetchall()
    except apsw.Error as error:
        raise translated(error) from error
    return raw


def _open(path: Path) -> apsw.Connection:
    raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=STATEMENTS)
    raw.set_busy_timeout(BUSY_MS)
    raw.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    raw.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    raw.execute("PRAGMA foreign_keys = ON").fetchall()
    return raw


def _switch_to_wal(raw: apsw.Connection) -> None:
    # Several processes may switch a new file at once; SQLite does not wait for them here.
    until = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            raw.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except apsw.BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(0.005)


def _migrate(raw: apsw.Connection, known: list[Migration]) -> None:
    """Bring the schema up to date: each migration in one transaction with its version row."""
    while missing(_version(raw), known):
        raw.execute("BEGIN IMMEDIATE")
        try:
            raw.execute(VERSION_TABLE)
            for migration in missing(_version(raw), known)[:1]:
                _apply(raw, migration)
            raw.execute("COMMIT")
        finally:
            if raw.in_transaction:
                raw.execute("ROLLBACK")


def _apply(raw: apsw.Connection, migration: Migration) -> None:
    raw.execute(migration.sql).fetchall()
    raw.execute(
        "INSERT INTO schema_version VALUES (?, ?, ?)", (migration.number, migration.name, time.time_ns() // 1000)
    )


def _version(raw: apsw.Connection) -> int:
    if not raw.table_exists("main", "schema_version"):
        return 0
    version: int = raw.execute(CURRENT).get
    return version


def _rewrite_header(conn: Connection) -> None:
    row = conn.one("PRAGMA user_version")
    conn.execute(f"PRAGMA user_version = {row[0] if row else 0}")


def _size(path: Path | str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _unescape(text: str) -> str:
    """A mount point without the octal escapes of spaces and the like."""
    return text.encode(errors="surrogateescape").decode("unicode_escape").encode("latin-1").decode(errors="replace")
