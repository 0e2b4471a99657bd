"""SQLite only: one writer with group commit, the write-ahead log, the file and a full disk."""

from __future__ import annotations

import gc
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from shopfloor.errors import ShopfloorError, StartupError, StoreBusy, StoreFailed, StoreFull, StoreUnwritable
from shopfloor.store import Connection, Store, open_store, sqlite_writer
from shopfloor.store import sqlite as module
from shopfloor.store.sqlite import find_network_filesystem
from tests.store.faults import FailingDisk
from tests.store.support import (
    MIGRATIONS,
    PATIENCE,
    BlockedWriter,
    Child,
    first_value,
    increment_counter,
    insert_thing,
    list_titles,
    run_together,
    wait_until,
)


def run_batch(store: Store, *functions: Callable[[Connection], Any], meanwhile: Callable[[], Any] = bool) -> list[Any]:
    """Run writes in one batch, in this order, and return what each returned or raised."""
    answers: list[Any] = [None] * len(functions)

    def run(place: int) -> None:
        try:
            answers[place] = store.write(functions[place])
        except ShopfloorError as error:
            answers[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(functions))]
    with BlockedWriter(store) as busy:
        for place, thread in enumerate(threads):
            thread.start()
            busy.wait_until_queued(place + 1)
        meanwhile()
    for thread in threads:
        thread.join(PATIENCE)
    return answers


def test_waiting_writes_share_one_commit(sqlite):
    sizes: list[int] = []
    sqlite.on_batch(sizes.append)
    assert run_batch(sqlite, *[increment_counter] * 10) == list(range(1, 11))
    assert sizes == [1, 10]


def test_credential_change_is_visible_to_every_process_before_its_caller_is_answered(sqlite, tmp_path):
    other = open_store(f"sqlite://{tmp_path}/floor.db", migrations=MIGRATIONS)
    try:
        first = other.credential_version()
        sqlite.write(lambda connection: connection.notify_on_commit("mail:human"))
        assert other.credential_version() == first
        sqlite.write(lambda connection: connection.notify_on_commit("token"))
        assert other.credential_version() == sqlite.credential_version() != first
    finally:
        other.close()
    assert other.credential_version() == 0


def test_a_batch_is_bounded(sqlite):
    sizes: list[int] = []
    sqlite.on_batch(sizes.append)
    with BlockedWriter(sqlite):
        for number in range(600):
            sqlite.later(insert_thing(str(number)))
    sqlite.flush()
    sqlite.close()
    assert max(sizes) == 256
    assert sum(sizes) == 602


def test_no_write_is_answered_before_the_commit(sqlite):
    """Report the failure of a write only after the commit of the write in its batch that caused it."""
    first, second = run_batch(sqlite, insert_thing("same"), insert_thing("same"))
    assert first == 1
    assert isinstance(second, StoreFailed)
    assert list_titles(sqlite) == ["same"]


@pytest.fixture
def disk(tmp_path):
    disk = FailingDisk()
    yield disk
    disk.unregister()
    gc.collect()


@pytest.fixture
def store_on_failing_disk(disk, tmp_path):
    store = open_store(f"sqlite://{tmp_path}/floor.db", migrations=MIGRATIONS)
    yield store
    store.close()


@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize(("error", "expected"), [(apsw.IOError, StoreUnwritable), (apsw.FullError, StoreFull)])
def test_failed_commit_acknowledges_no_write(disk, store_on_failing_disk, operation, error, expected):
    answers = run_batch(
        store_on_failing_disk, *[increment_counter] * 4, meanwhile=lambda: disk.fail(operation, error, times=1_000)
    )
    assert [type(answer) for answer in answers] == [expected] * 4
    disk.fail(operation, error, times=0)
    assert store_on_failing_disk.read(lambda conn: conn.fetch_all("SELECT n FROM counter")) == []
    assert store_on_failing_disk.write(increment_counter) == 1
    assert disk.failures >= 4


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_commit_that_fails_once_is_retried(disk, store_on_failing_disk, operation):
    answers = run_batch(
        store_on_failing_disk, *[increment_counter] * 4, meanwhile=lambda: disk.fail(operation, apsw.IOError, times=1)
    )
    assert answers == [1, 2, 3, 4]
    assert disk.failures == 1
    assert store_on_failing_disk.read(lambda conn: conn.fetch_all("SELECT n FROM counter")) == [(4,)]


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_deferred_write_waits_for_a_disk_that_fails(disk, store_on_failing_disk, operation):
    disk.fail(operation, apsw.IOError, times=1_000)
    store_on_failing_disk.later(increment_counter)
    wait_until(lambda: disk.failures)
    disk.fail(operation, apsw.IOError, times=0)
    wait_until(lambda: store_on_failing_disk.read(lambda conn: conn.fetch_all("SELECT n FROM counter")) == [(1,)])
    assert store_on_failing_disk.gauges()["deferred_dropped"] == 0


def test_dropped_transaction_affects_no_other_write(sqlite):
    """Run the other writes again, each once: the engine also drops their released savepoints."""

    def drop(conn: Connection) -> None:
        increment_counter(conn, "dropper")
        conn.execute("INSERT OR ROLLBACK INTO counter VALUES ('dropper', 1)")

    sizes: list[int] = []
    sqlite.on_batch(sizes.append)
    before, dropped, after = run_batch(sqlite, increment_counter, drop, increment_counter)
    assert (before, after) == (1, 2)
    assert isinstance(dropped, StoreFailed)
    assert sqlite.read(lambda conn: conn.fetch_all("SELECT name, n FROM counter")) == [("hits", 2)]
    assert sizes == [1, 1, 1]


def test_no_statement_runs_after_a_dropped_transaction(sqlite):
    def stubborn(conn: Connection) -> str:
        increment_counter(conn)
        with pytest.raises(StoreFailed), conn.savepoint():
            conn.execute("INSERT OR ROLLBACK INTO counter VALUES ('hits', 1)")
        with pytest.raises(StoreFailed):
            insert_thing("outside")(conn)
        return "done"

    (answer,) = run_batch(sqlite, stubborn)
    assert isinstance(answer, StoreFailed)
    with pytest.raises(StoreFailed):
        sqlite.write(stubborn)
    assert list_titles(sqlite) == []


def test_full_database_rejects_writes_and_recovers_when_space_is_freed(sqlite):
    pages = first_value(sqlite.write(lambda conn: conn.fetch_one("PRAGMA page_count")))
    sqlite.write(lambda conn: conn.execute(f"PRAGMA max_page_count = {pages + 5}"))

    def big(conn: Connection) -> None:
        conn.execute("INSERT INTO thing (title, body) VALUES ('big', :body)", body=bytes(100_000))

    small, full, other = run_batch(sqlite, increment_counter, big, increment_counter)
    assert (small, other) == (1, 2)
    assert isinstance(full, StoreFull)
    assert list_titles(sqlite) == []
    sqlite.write(lambda conn: conn.execute("PRAGMA max_page_count = 100000"))
    sqlite.write(big)
    assert list_titles(sqlite) == ["big"]


def test_writes_fail_cleanly_when_the_files_cannot_grow(tmp_path):
    url = f"sqlite://{tmp_path}/floor.db"
    other = Child("write_with_size_limit", url)
    other.start()
    first, second, third = other.read_rest()
    assert first == "1 done\n"
    assert second in ("2 StoreFull\n", "2 StoreUnwritable\n")
    assert third == "3 done\n"
    store = open_store(url, migrations=MIGRATIONS)
    assert list_titles(store) == ["1", "3"]
    store.close()


def test_another_process_that_keeps_the_lock_makes_the_store_busy(sqlite, tmp_path):
    sqlite.write(lambda conn: conn.execute("PRAGMA busy_timeout = 1"))
    other = apsw.Connection(str(tmp_path / "floor.db"))
    other.execute("BEGIN IMMEDIATE")
    answers = run_together(*[lambda: sqlite.write(increment_counter)] * 3)
    assert {type(answer) for answer in answers} == {StoreBusy}
    with pytest.raises(StoreBusy):
        sqlite.check()
    other.execute("ROLLBACK")
    assert sqlite.write(increment_counter) == 1
    other.close()


def test_writes_behind_a_lock_of_another_process_fail_sooner_after_the_first(sqlite, tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_writer, "STILL_LOCKED_MS", 1)
    other = apsw.Connection(str(tmp_path / "floor.db"))
    other.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    with pytest.raises(StoreBusy):
        sqlite.write(increment_counter)
    first = time.monotonic() - started
    started = time.monotonic()
    for _ in range(5):
        with pytest.raises(StoreBusy):
            sqlite.write(increment_counter)
    assert first >= sqlite_writer.LOCKED_MS / 1000
    assert time.monotonic() - started < first
    other.execute("ROLLBACK")
    assert sqlite.write(increment_counter) == 1
    other.close()


def test_write_ahead_log_stays_short_and_is_removed_at_close(sqlite, tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_PAGES", 20)
    monkeypatch.setattr(sqlite_writer, "TRUNCATE_PAGES", 60)
    for number in range(150):
        sqlite.write(
            lambda conn, n=number: conn.execute(
                "INSERT INTO thing (title, body) VALUES (:t, :b)", t=str(n), b=bytes(8000)
            )
        )
    assert sqlite.gauges()["wal_bytes"] < 100 * 4200
    assert sqlite.gauges()["database_bytes"] > 100 * 8000
    sqlite.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["floor.db", "floor.db-epoch"]


def test_an_open_reader_does_not_stop_writers(sqlite, monkeypatch):
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_PAGES", 5)
    monkeypatch.setattr(sqlite_writer, "TRUNCATE_PAGES", 10)

    def read(conn: Connection) -> object:
        before = conn.fetch_all("SELECT n FROM counter")
        for _ in range(20):
            sqlite.write(increment_counter)
        return before, conn.fetch_all("SELECT n FROM counter")

    assert sqlite.read(read) == ([], [])
    assert sqlite.write(increment_counter) == 21


def test_reads_end_with_the_call(sqlite):
    run_together(*[lambda: sqlite.read(lambda conn: conn.fetch_one("SELECT 1"))] * 20)
    assert 1 <= len(sqlite._readers) <= module.MAX_IDLE_READERS
    assert not any(raw.in_transaction for raw in sqlite._readers)


def test_file_is_readable_by_its_owner_only(tmp_path):
    old = os.umask(0)
    try:
        store = open_store(f"sqlite://{tmp_path}/data/floor.db", migrations=MIGRATIONS)
    finally:
        os.umask(old)
    store.write(increment_counter)
    files = list((tmp_path / "data").iterdir())
    assert {file.name for file in files} == {"floor.db", "floor.db-wal", "floor.db-shm", "floor.db-epoch"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    store.close()


def test_file_uses_wal_full_sync_and_foreign_keys(sqlite):
    pragmas = sqlite.write(
        lambda conn: [conn.fetch_one(f"PRAGMA {name}") for name in ("journal_mode", "synchronous", "foreign_keys")]
    )
    assert pragmas == [("wal",), (2,), (1,)]


def test_a_path_that_cannot_be_opened_is_refused_by_name(tmp_path):
    with pytest.raises(StartupError, match=f"{tmp_path} cannot be opened: it must be a file"):
        open_store(f"sqlite://{tmp_path}", migrations=MIGRATIONS)


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be looked at" * 100, b"SQLite format 3\0" * 99]
)
def test_file_that_is_not_a_database_is_refused_by_name_and_left_unchanged(tmp_path, content):
    path = tmp_path / "floor.db"
    path.write_bytes(content)
    with pytest.raises(StartupError, match=f"{path} is damaged or not a database"):
        open_store(f"sqlite://{path}", migrations=MIGRATIONS)
    assert path.read_bytes() == content


def test_stores_without_a_path_are_separate():
    one, two = (open_store("sqlite://", migrations=MIGRATIONS) for _ in range(2))
    assert [one.write(increment_counter), one.write(increment_counter), two.write(increment_counter)] == [1, 2, 1]
    assert one.read(lambda conn: conn.fetch_one("SELECT n FROM counter")) == (2,)
    assert isinstance(one, module.SqliteStore)
    folder = one._path.parent
    one.close()
    two.close()
    assert not folder.exists()


MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:26 / /mnt rw shared:2 - nfs4 server:/export rw
31 30 0:27 / /mnt/local rw - ext4 /dev/sdb1 rw
32 22 0:28 / /mnt\040space rw master:5 - cifs //server/share rw
33 22 0:29 / /home/me/remote rw - fuse.sshfs me@host:/ rw
34 22 0:30 / /over rw - nfs server:/x rw
35 22 0:31 / /over rw - tmpfs tmpfs rw
36 22 0:32 / /gr\303\274n rw - smb3 //server/x rw
""".strip()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/floor.db", None),
        ("/mnt/floor.db", "nfs4"),
        ("/mnt/deep/er/floor.db", "nfs4"),
        ("/mnt/local/floor.db", None),
        ("/mntfloor.db", None),
        ("/mnt space/floor.db", "cifs"),
        ("/home/me/remote/floor.db", "fuse.sshfs"),
        ("/home/me/floor.db", None),
        ("/over/floor.db", None),
        ("/grün/floor.db", "smb3"),
    ],
)
def test_network_file_systems_are_recognized(path, kind):
    assert find_network_filesystem(Path(path), MOUNTS) == kind


def test_a_network_file_system_is_refused_with_advice(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "find_network_filesystem", lambda path: "nfs4")
    with pytest.raises(StartupError, match=r"network file system \(nfs4\).*local disk.*PostgreSQL"):
        open_store(f"sqlite://{tmp_path}/floor.db", migrations=MIGRATIONS)
    assert list(tmp_path.iterdir()) == []


def count_statistics(path: Path) -> int:
    raw = apsw.Connection(str(path))
    try:
        known = raw.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_stat1'").get
        return int(raw.execute("SELECT count(*) FROM sqlite_stat1").get) if known else 0
    finally:
        raw.close()


def test_statistics_are_updated_on_demand(sqlite, tmp_path):
    sqlite.write(lambda conn: [insert_thing(str(number))(conn) for number in range(500)])
    assert count_statistics(tmp_path / "floor.db") == 0
    sqlite.update_statistics()
    assert count_statistics(tmp_path / "floor.db") > 0


def test_statistics_are_updated_on_close(tmp_path):
    path = tmp_path / "floor.db"
    store = open_store(f"sqlite://{path}")
    store.write(
        lambda conn: conn.execute(
            """
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
            INSERT INTO answer (workspace, caller, key, digest, created_at)
            SELECT 1, 'caller', 'key' || i, x'00', i FROM n
            """
        )
    )
    assert count_statistics(path) == 0
    store.close()
    assert count_statistics(path) > 0
