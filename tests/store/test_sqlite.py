"""What only SQLite has: one writer with group commit, a log to keep short, a file to guard, a disk that fills up."""

from __future__ import annotations

import gc
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from shopfloor.errors import ShopfloorError, StartRefused, StoreBusy, StoreFailed, StoreFull, StoreUnreachable
from shopfloor.store import sqlite as module
from shopfloor.store import sqlite_writer
from shopfloor.store.database import Connection, Store, open_store
from shopfloor.store.sqlite import network_filesystem
from tests.store.faults import FailingDisk
from tests.store.support import MIGRATIONS, PATIENCE, Busy, Child, bump, only, put, titles, together


def batch(store: Store, *functions: Callable[[Connection], Any], meanwhile: Callable[[], Any] = bool) -> list[Any]:
    """What became of writes that were taken together, in this order."""
    answers: list[Any] = [None] * len(functions)

    def run(place: int) -> None:
        try:
            answers[place] = store.write(functions[place])
        except ShopfloorError as error:
            answers[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(functions))]
    with Busy(store) as busy:
        for place, thread in enumerate(threads):
            thread.start()
            busy.queued(place + 1)
        meanwhile()
    for thread in threads:
        thread.join(PATIENCE)
    return answers


def test_waiting_writes_share_one_commit(sqlite):
    sizes: list[int] = []
    sqlite.on_batch(sizes.append)
    assert batch(sqlite, *[bump] * 10) == list(range(1, 11))
    assert sizes == [1, 10]


def test_every_process_on_the_file_sees_that_credentials_changed_before_whoever_changed_them_is_answered(
    sqlite, tmp_path
):
    other = open_store(f"sqlite://{tmp_path}/floor.db", migrations=MIGRATIONS)
    try:
        first = other.epoch()
        sqlite.write(lambda connection: connection.hint("mail:human"))
        assert other.epoch() == first
        sqlite.write(lambda connection: connection.hint("token"))
        assert other.epoch() == sqlite.epoch() != first
    finally:
        other.close()
    assert other.epoch() is None


def test_a_batch_is_bounded(sqlite):
    sizes: list[int] = []
    sqlite.on_batch(sizes.append)
    with Busy(sqlite):
        for number in range(600):
            sqlite.later(put(str(number)))
    sqlite.flush()
    sqlite.close()
    assert max(sizes) == 256
    assert sum(sizes) == 602


def test_nobody_is_answered_before_the_commit(sqlite):
    """A write that fails because of another one in its batch is only told so once that other one is durable."""
    first, second = batch(sqlite, put("same"), put("same"))
    assert first == 1
    assert isinstance(second, StoreFailed)
    assert titles(sqlite) == ["same"]


@pytest.fixture
def disk(tmp_path):
    disk = FailingDisk()
    yield disk
    disk.unregister()
    gc.collect()


@pytest.fixture
def on_disk(disk, tmp_path):
    store = open_store(f"sqlite://{tmp_path}/floor.db", migrations=MIGRATIONS)
    yield store
    store.close()


@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize(("error", "expected"), [(apsw.IOError, StoreFailed), (apsw.FullError, StoreFull)])
def test_when_the_commit_fails_nobody_is_answered_as_done(disk, on_disk, operation, error, expected):
    answers = batch(on_disk, *[bump] * 4, meanwhile=lambda: disk.fail(operation, error, times=1_000))
    assert [type(answer) for answer in answers] == [expected] * 4
    disk.fail(operation, error, times=0)
    assert on_disk.read(lambda conn: conn.all("SELECT n FROM counter")) == []
    assert on_disk.write(bump) == 1
    assert disk.failures >= 4


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_commit_that_fails_once_is_made_up_for(disk, on_disk, operation):
    answers = batch(on_disk, *[bump] * 4, meanwhile=lambda: disk.fail(operation, apsw.IOError, times=1))
    assert answers == [1, 2, 3, 4]
    assert disk.failures == 1
    assert on_disk.read(lambda conn: conn.all("SELECT n FROM counter")) == [(4,)]


def test_a_dropped_transaction_takes_nobody_along(sqlite):
    """The engine drops everything, released savepoints included; the others are run again, each once."""

    def drop(conn: Connection) -> None:
        bump(conn, "dropper")
        conn.execute("INSERT OR ROLLBACK INTO counter VALUES ('dropper', 1)")

    sizes: list[int] = []
    sqlite.on_batch(sizes.append)
    before, dropped, after = batch(sqlite, bump, drop, bump)
    assert (before, after) == (1, 2)
    assert isinstance(dropped, StoreFailed)
    assert sqlite.read(lambda conn: conn.all("SELECT name, n FROM counter")) == [("hits", 2)]
    assert sizes == [1, 1, 1]


def test_nothing_runs_outside_of_a_dropped_transaction(sqlite):
    def stubborn(conn: Connection) -> str:
        bump(conn)
        with pytest.raises(StoreFailed), conn.savepoint():
            conn.execute("INSERT OR ROLLBACK INTO counter VALUES ('hits', 1)")
        with pytest.raises(StoreFailed):
            put("outside")(conn)
        return "done"

    (answer,) = batch(sqlite, stubborn)
    assert isinstance(answer, StoreFailed)
    with pytest.raises(StoreFailed):
        sqlite.write(stubborn)
    assert titles(sqlite) == []


def test_a_full_database_refuses_and_works_again_when_there_is_room(sqlite):
    pages = only(sqlite.write(lambda conn: conn.one("PRAGMA page_count")))
    sqlite.write(lambda conn: conn.execute(f"PRAGMA max_page_count = {pages + 5}"))

    def big(conn: Connection) -> None:
        conn.execute("INSERT INTO thing (title, body) VALUES ('big', :body)", body=bytes(100_000))

    small, full, other = batch(sqlite, bump, big, bump)
    assert (small, other) == (1, 2)
    assert isinstance(full, StoreFull)
    assert titles(sqlite) == []
    sqlite.write(lambda conn: conn.execute("PRAGMA max_page_count = 100000"))
    sqlite.write(big)
    assert titles(sqlite) == ["big"]


def test_files_that_cannot_grow(tmp_path):
    url = f"sqlite://{tmp_path}/floor.db"
    other = Child("small_disk", url)
    other.go()
    first, second, third = other.rest()
    assert first == "1 done\n"
    assert second in ("2 StoreFull\n", "2 StoreFailed\n")
    assert third == "3 done\n"
    store = open_store(url, migrations=MIGRATIONS)
    assert titles(store) == ["1", "3"]
    store.close()


def test_another_process_that_keeps_the_lock_makes_the_store_busy(sqlite, tmp_path):
    sqlite.write(lambda conn: conn.execute("PRAGMA busy_timeout = 1"))
    other = apsw.Connection(str(tmp_path / "floor.db"))
    other.execute("BEGIN IMMEDIATE")
    answers = together(*[lambda: sqlite.write(bump)] * 3)
    assert {type(answer) for answer in answers} == {StoreBusy}
    with pytest.raises(StoreBusy):
        sqlite.check()
    other.execute("ROLLBACK")
    assert sqlite.write(bump) == 1
    other.close()


def test_the_log_stays_short_and_is_gone_at_the_end(sqlite, tmp_path, monkeypatch):
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
        before = conn.all("SELECT n FROM counter")
        for _ in range(20):
            sqlite.write(bump)
        return before, conn.all("SELECT n FROM counter")

    assert sqlite.read(read) == ([], [])
    assert sqlite.write(bump) == 21


def test_reads_end_with_the_call(sqlite):
    together(*[lambda: sqlite.read(lambda conn: conn.one("SELECT 1"))] * 20)
    assert 1 <= len(sqlite._readers) <= module.IDLE_READERS
    assert not any(raw.in_transaction for raw in sqlite._readers)


def test_the_file_is_for_its_owner_only(tmp_path):
    old = os.umask(0)
    try:
        store = open_store(f"sqlite://{tmp_path}/data/floor.db", migrations=MIGRATIONS)
    finally:
        os.umask(old)
    store.write(bump)
    files = list((tmp_path / "data").iterdir())
    assert {file.name for file in files} == {"floor.db", "floor.db-wal", "floor.db-shm", "floor.db-epoch"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    store.close()


def test_the_file_is_durable_and_guarded(sqlite):
    pragmas = sqlite.write(
        lambda conn: [conn.one(f"PRAGMA {name}") for name in ("journal_mode", "synchronous", "foreign_keys")]
    )
    assert pragmas == [("wal",), (2,), (1,)]


def test_a_vanished_file_is_not_ready(sqlite, tmp_path):
    (tmp_path / "floor.db").unlink()
    with pytest.raises(StoreUnreachable):
        sqlite.check()


def test_a_path_that_cannot_be_opened_is_refused_by_name(tmp_path):
    with pytest.raises(StartRefused, match=f"{tmp_path} cannot be opened: it has to be a file"):
        open_store(f"sqlite://{tmp_path}", migrations=MIGRATIONS)


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be looked at" * 100, b"SQLite format 3\0" * 99]
)
def test_a_file_that_is_no_database_is_refused_by_name_and_left_alone(tmp_path, content):
    path = tmp_path / "floor.db"
    path.write_bytes(content)
    with pytest.raises(StartRefused, match=f"{path} is damaged, or no database at all"):
        open_store(f"sqlite://{path}", migrations=MIGRATIONS)
    assert path.read_bytes() == content


def test_without_a_path_each_store_is_its_own():
    one, two = (open_store("sqlite://", migrations=MIGRATIONS) for _ in range(2))
    assert [one.write(bump), one.write(bump), two.write(bump)] == [1, 2, 1]
    assert one.read(lambda conn: conn.one("SELECT n FROM counter")) == (2,)
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
def test_network_file_systems_are_known(path, kind):
    assert network_filesystem(Path(path), MOUNTS) == kind


def test_a_network_file_system_is_refused_with_advice(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "network_filesystem", lambda path: "nfs4")
    with pytest.raises(StartRefused, match=r"network file system \(nfs4\).*local disk.*PostgreSQL"):
        open_store(f"sqlite://{tmp_path}/floor.db", migrations=MIGRATIONS)
    assert list(tmp_path.iterdir()) == []
