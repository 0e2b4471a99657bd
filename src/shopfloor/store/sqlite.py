"""SQLite: the store that needs no setup. One writer thread with group commit, any number of readers."""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import apsw

from shopfloor.errors import ShopfloorError, StartupError, StoreDamaged, StoreFailed, StoreFull, StoreUnreachable
from shopfloor.store.credential_version import SharedVersion
from shopfloor.store.database_file import DatabaseFile, keep_wal_at_close, refuse_emptied
from shopfloor.store.listeners import guard
from shopfloor.store.migrate import (
    ADD_DIGEST_SQL,
    APPLIED_SQL,
    CURRENT_VERSION_SQL,
    Migration,
    check_applied,
    find_missing,
    refuse_outdated,
)
from shopfloor.store.protocol import Callback, Connection, Engine
from shopfloor.store.sqlite_connection import SqliteConnection, translate_error
from shopfloor.store.sqlite_writer import SqliteWriter

MAX_IDLE_READERS = 64
"""Connections kept for the next read. Opening one costs as much as a call: 450 of 800 µs of CPU with 64 threads."""
OPEN_MS = 5_000
"""How long opening the database, and each reader, waits for another process. With 30 s, a command was answered after
33 s while a program held the whole file."""
MIGRATION_MS = 30_000
"""How long a start waits for another process that migrates the same database."""
STATEMENT_CACHE_SIZE = 500
ANALYSIS_LIMIT_ROWS = 1000
"""Rows of each index that ANALYZE samples. The writer waits for it: 5.6 s without a limit at 2 million rows."""
OPTIMIZE_ALL_TABLES = "0x10002"
"""Also analyze tables that this connection has not queried: reads use other connections."""
VERSION_TABLE = """
CREATE TABLE IF NOT EXISTS schema_version (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL, digest TEXT
) STRICT"""
BACKUP_FOLDER = "backups"
"""Beside the database, for the copies made before migrations."""

# fmt: off
NETWORK_FILESYSTEMS = frozenset({
    "nfs", "nfs3", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "ncpfs", "glusterfs", "ceph", "lustre", "beegfs",
    "davfs", "gpfs", "orangefs", "pvfs2", "fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs", "fuse.ceph",
    "fuse.ceph-fuse", "fuse.gcsfuse", "fuse.goofys", "fuse.davfs", "fuse.davfs2", "fuse.juicefs", "fuse.blobfuse",
    "fuse.blobfuse2", "fuse.mfs", "fuse.lizardfs", "fuse.smbnetfs",
})
# fmt: on

_PLAIN_TABLES_SQL = (
    "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%'"
)

_log = logging.getLogger("shopfloor.store")

T = TypeVar("T")


class SqliteStore:
    """A database file; without a path, a private one that is deleted on close."""

    engine: Engine = "sqlite"
    commit_may_be_unknown: bool = False

    def __init__(self, path: Path | None, migrations: list[Migration], *, migrate: bool = True) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if path is None:
            self._folder = tempfile.TemporaryDirectory(prefix="shopfloor-")
            path = Path(self._folder.name, "private.db")
        # SQLite's locks and shared memory need one kernel: over NFS and the like, two hosts corrupt the file.
        kind = find_network_filesystem(path)
        if kind is not None:
            raise StartupError(
                f"The database is on a network file system ({kind}), where SQLite loses data. "
                "Move the data folder to a local disk, or use PostgreSQL."
            )
        self._path = path
        self._raw = _open_writer(path, durable=self._folder is None, migrations=migrations, migrate=migrate)
        self._readers: list[apsw.Connection] = []
        self._closed = False
        try:
            self._credentials = SharedVersion(Path(f"{path}-epoch"))
        except OSError as error:
            raise StoreUnreachable(f"Cannot create the file {path}-epoch: {error.strerror}.") from error
        self._file = DatabaseFile(path)
        self._writer = SqliteWriter(self._raw, self._credentials, self._file)
        self._queue = self._writer.queue

    @property
    def failure(self) -> ShopfloorError | None:
        """Why the store refuses everything until the next start; usually None."""
        return self._file.failure

    def fence(self, workspace: int) -> None:
        """Do nothing: SQLite has no row-level security."""

    def write(self, fn: Callable[[Connection], T]) -> T:
        try:
            result: T = self._queue.run(fn)
        except StoreDamaged as error:
            self._file.damage = error
            raise
        return result

    def later(self, fn: Callable[[Connection], Any], is_done: Callable[[Connection], bool] | None = None) -> None:
        # SQLite knows the outcome of every commit.
        self._queue.defer(fn)

    def flush(self) -> None:
        # The queue keeps its order, so everything before this is durable.
        self._queue.run(lambda _: None)

    def read(self, fn: Callable[[Connection], T]) -> T:
        if self._closed:
            raise StoreUnreachable("The store is closed.")
        # list.pop and list.append are atomic, so the pool needs no lock.
        if self._file.failure is not None:
            raise type(self._file.failure)
        try:
            raw = self._readers.pop()
        except IndexError:
            # A new connection opens what is at the path now.
            self._file.check()
            raw = _open_reader(self._path)
        run = raw.execute
        conn = SqliteConnection(raw, run, [])
        try:
            # Deferred: a reader never upgrades to a write lock. The first statement takes the snapshot.
            run("BEGIN")
            result = fn(conn)
            conn.check_intact()
            return result
        except StoreDamaged as error:
            self._file.damage = error
            raise
        finally:
            conn.invalidate()
            # An open read transaction keeps the WAL from being reset: one let it grow 20-fold.
            if raw.in_transaction:
                run("ROLLBACK")
            self._give_back(raw)

    def _give_back(self, raw: apsw.Connection) -> None:
        # The store may have been closed while `fn` ran.
        if self._closed or len(self._readers) >= MAX_IDLE_READERS:
            raw.close()
        else:
            self._readers.append(raw)

    def listen(self, callback: Callback) -> Callable[[], None]:
        end = self._writer.listeners.add(callback)
        self._queue.wake_worker()
        return end

    def credential_version(self) -> int:
        return 0 if self._closed else self._credentials.value

    def try_lead(self, workspace: int) -> bool:
        # SQLite has one writer at a time: several processes do the work in turn, and the second finds nothing to do.
        return True

    def read_clock(self) -> int | None:
        return None

    def gauges(self) -> dict[str, float]:
        return {
            "queue_depth": len(self._queue),
            "deferred_dropped": self._queue.dropped,
            "wal_bytes": _size(f"{self._path}-wal"),
            "database_bytes": _size(self._path),
            "commits": self._writer.commits,
            "writes": self._writer.writes,
        }

    def on_batch(self, observer: Callable[[int], None]) -> None:
        self._writer.observers = (*self._writer.observers, guard(observer))

    def check(self) -> None:
        self._file.check()
        self._file.check_space()
        self._queue.check_deferred()

        def rewrite_header(conn: Connection) -> None:
            # A write that changes nothing, and still fails on a read-only disk.
            row = conn.fetch_one("PRAGMA user_version")
            conn.execute(f"PRAGMA user_version = {row[0] if row else 0}")

        self.write(rewrite_header)
        self.read(_read_every_table)
        # Found by an earlier call, on a page that the code above did not read.
        if self._file.damage is not None:
            raise self._file.damage

    def update_statistics(self) -> None:
        # Without statistics SQLite considers `workspace = ?` selective, and reads whole tables.
        self.write(lambda conn: conn.execute(f"PRAGMA optimize = {OPTIMIZE_ALL_TABLES}"))

    def copy_to(self, target: Path) -> None:
        copy_file(self._path, target)

    def find_damage(self) -> list[str]:
        problems = find_file_damage(self._path)
        if not problems:
            try:
                # The full-text index: its check is a command of the virtual table, spelled as an INSERT.
                self.write(
                    lambda conn: conn.execute("INSERT INTO chunk_words (chunk_words) VALUES ('integrity-check')")
                )
            except (StoreFailed, StoreDamaged) as error:
                problems.append(f"the index of words: {error.message}")
        return problems

    def close(self) -> None:
        if self._closed:
            return
        self._writer.close()
        # A server that never runs for an hour would otherwise have no statistics. They are optional: a full disk, or
        # another process that writes, must not keep this one from closing.
        self._raw.set_busy_timeout(0)
        with suppress(apsw.Error):
            self._raw.execute(f"PRAGMA optimize = {OPTIMIZE_ALL_TABLES}").fetchall()
        self._closed = True
        while self._readers:
            self._readers.pop().close()
        # Another process may still read the WAL. It then checkpoints later; this one does not wait for its readers.
        with suppress(apsw.Error):
            if self.failure is None:
                self._raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            else:
                keep_wal_at_close(self._raw)
        self._raw.close()
        self._credentials.close()
        if self._folder is not None:
            self._folder.cleanup()


def _read_every_table(conn: Connection) -> None:
    """Read the first row of every table."""
    for (name,) in conn.fetch_all(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    ):
        conn.fetch_one(f'SELECT * FROM "{name}" NOT INDEXED LIMIT 1')


def sqlite_schema_version(path: Path) -> int:
    """Return the number of the last applied migration; 0 for a file that is missing or empty."""
    if not path.exists():
        return 0
    raw = _open_reader(path)
    try:
        return _version(raw)
    except apsw.Error as error:
        raise translate_error(error) from error
    finally:
        raw.close()


def find_network_filesystem(path: Path, mountinfo: str | None = None) -> str | None:
    """Return the type of the network file system that holds `path`, or None for a local one."""
    if mountinfo is None:
        try:
            mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
    parts = Path(os.path.realpath(path)).parts
    deepest, kind = 0, ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        # Spaces, tabs and backslashes in a mount point are octal escapes, such as \040.
        escaped = before.split(" ")[4].encode(errors="surrogateescape")
        mount = Path(escaped.decode("unicode_escape").encode("latin-1").decode(errors="replace")).parts
        # `>=`: a later line for the same mount point hides an earlier one.
        if len(mount) >= deepest and parts[: len(mount)] == mount:
            deepest, kind = len(mount), after.split(" ")[0]
    return kind if kind in NETWORK_FILESYSTEMS else None


def _open_writer(path: Path, *, durable: bool, migrations: list[Migration], migrate: bool) -> apsw.Connection:
    # The file is created here, for its owner only, and never opened if it exists: closing any descriptor of a file
    # drops all POSIX locks of this process on it, including those of SQLite.
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_emptied(path)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise StoreUnreachable(f"The database file cannot be created: {error.strerror}.") from error
    try:
        raw = _open(path)
        _switch_to_wal(raw)
        # FULL, not NORMAL: NORMAL in WAL mode loses the last commits in a power failure, after their calls were
        # answered.
        raw.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}").fetchall()
        # macOS only: there, fsync alone leaves the data in the disk's own cache.
        raw.execute("PRAGMA fullfsync = ON").fetchall()
        raw.execute("PRAGMA cache_size = -16000").fetchall()
        # Savepoints copy pages, which would otherwise go through a file.
        raw.execute("PRAGMA temp_store = MEMORY").fetchall()
        raw.execute(f"PRAGMA analysis_limit = {ANALYSIS_LIMIT_ROWS}").fetchall()
        if not migrate:
            refuse_outdated(_version(raw), migrations)
        _migrate(raw, path, migrations)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StartupError(
            f"{path} is damaged or not a database. Restore a backup, or move the file away and start again"
        ) from error
    except apsw.CantOpenError as error:
        raise StartupError(f"{path} cannot be opened: it must be a file that you may read and write") from error
    except apsw.Error as error:
        raise translate_error(error) from error
    return raw


def _open_reader(path: Path) -> apsw.Connection:
    try:
        raw = _open(path)
        raw.execute("PRAGMA query_only = ON").fetchall()
    except apsw.Error as error:
        raise translate_error(error) from error
    return raw


def _open(path: Path) -> apsw.Connection:
    raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=STATEMENT_CACHE_SIZE)
    raw.set_busy_timeout(OPEN_MS)
    # Without these, a double-quoted "name" is a string if there is no such column, and a typo goes unnoticed.
    raw.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    raw.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    raw.execute("PRAGMA foreign_keys = ON").fetchall()
    # SQLite has the operator REGEXP, and leaves the function to the program.
    raw.create_scalar_function("regexp", _matches_regex, 2)
    return raw


def _matches_regex(*values: Any) -> bool:
    pattern, text = values
    return _compile(pattern).search(text) is not None


@lru_cache(maxsize=64)
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _switch_to_wal(raw: apsw.Connection) -> None:
    # Several processes may switch a new file at once, and the busy timeout does not apply to this PRAGMA.
    until = time.monotonic() + OPEN_MS / 1000
    while True:
        try:
            raw.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except apsw.BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(0.005)


def _migrate(raw: apsw.Connection, path: Path, known: list[Migration]) -> None:
    """Bring the schema up to date: each migration in one transaction with its version row.

    A new database gets all of them in one transaction: another process that starts at the same time must not find half
    a schema, which looks like that of an older version.
    """
    before = _version(raw)
    if before:
        check_applied(_list_applied(raw), known)
        if find_missing(before, known):
            _copy_before_migration(path, before)
    raw.set_busy_timeout(MIGRATION_MS)
    while find_missing(_version(raw), known):
        raw.execute("BEGIN IMMEDIATE")
        try:
            raw.execute(VERSION_TABLE)
            if not _has_digests(raw):
                raw.execute(ADD_DIGEST_SQL)
            # Read again under the lock: another process may have applied it in the meantime.
            current = _version(raw)
            missing = find_missing(current, known)
            for migration in missing[:1] if current else missing:
                raw.execute(migration.sql).fetchall()
                raw.execute(
                    "INSERT INTO schema_version (number, name, applied_at, digest) VALUES (?, ?, ?, ?)",
                    (migration.number, migration.name, time.time_ns() // 1000, migration.digest),
                )
            raw.execute("COMMIT")
        finally:
            if raw.in_transaction:
                raw.execute("ROLLBACK")


def _copy_before_migration(path: Path, version: int) -> None:
    folder = path.parent / BACKUP_FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    copy = folder / f"schema-{version:04}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.db"
    # Several processes may migrate at once, and one copy is enough.
    if not copy.exists():
        copy_file(path, copy)
        _log.warning("copied the database to %s before its schema is migrated", copy)


def copy_file(path: Path, target: Path) -> None:
    """Write a consistent copy of a database that may be in use, in one step, readable by its owner only."""
    with suppress(FileExistsError):
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    raw = _open(path)
    try:
        raw.execute("VACUUM INTO ?", (str(target),)).fetchall()
    except apsw.Error as error:
        # On a full disk, SQLite leaves the journal of the copy.
        for each in (target, Path(f"{target}-journal")):
            each.unlink(missing_ok=True)
        raise translate_error(error) from error
    finally:
        raw.close()


def compact_file(path: Path) -> tuple[int, int]:
    """Rewrite a database without its free pages, while no process uses it; return its size before and after."""
    before = _size(path)
    # VACUUM writes a whole copy, and then the WAL of all pages.
    free = shutil.disk_usage(path.parent).free
    if free < 2 * before:
        raise StoreFull(
            f"Compacting needs {2 * before // 1_000_000 + 1} MB of free space; {free // 1_000_000} MB are free."
        )
    raw = _open(path)
    try:
        raw.execute("VACUUM").fetchall()
        raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.Error as error:
        raise translate_error(error) from error
    finally:
        raw.close()
    return before, _size(path)


def find_file_damage(path: Path) -> list[str]:
    """Return what is wrong with the pages and indexes of a database file; usually nothing."""
    try:
        raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            problems = [str(text) for (text,) in raw.execute("PRAGMA integrity_check(10)")]
            problems += [f"{row[0]} refers to a missing {row[2]}" for row in raw.execute("PRAGMA foreign_key_check")]
            return [problem for problem in problems if problem != "ok"]
        finally:
            raw.close()
    except apsw.Error as error:
        return [str(error)]


def count_rows(path: Path) -> dict[str, int]:
    """Return the number of rows of each table of a database file that no process writes to."""
    raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        names = [name for (name,) in raw.execute(_PLAIN_TABLES_SQL)]
        return {name: raw.execute(f'SELECT count(*) FROM "{name}"').get for name in sorted(names)}
    finally:
        raw.close()


def _has_digests(raw: apsw.Connection) -> bool:
    return bool(raw.execute("SELECT count(*) FROM pragma_table_info('schema_version') WHERE name = 'digest'").get)


def _list_applied(raw: apsw.Connection) -> list[tuple[int, str, str | None]]:
    sql = APPLIED_SQL if _has_digests(raw) else APPLIED_SQL.replace("digest", "NULL")
    return [(int(number), str(name), digest) for number, name, digest in raw.execute(sql)]


def _version(raw: apsw.Connection) -> int:
    if not raw.table_exists("main", "schema_version"):
        return 0
    version: int = raw.execute(CURRENT_VERSION_SQL).get
    return version


def _size(path: Path | str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
