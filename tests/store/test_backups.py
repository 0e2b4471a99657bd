"""A backup is made while the store is used, is complete, and can be restored."""

from __future__ import annotations

import json
import os
import resource
import threading
from pathlib import Path

import pytest

from shopfloor.errors import InvalidInput, SchemaTooNew, ShopfloorError, StoreDamaged, StoreFull
from shopfloor.store import open_store
from shopfloor.store.backups import create_backup, restore_backup, verify_backup
from shopfloor.store.sqlite import copy_file
from tests.store.support import MIGRATIONS, insert_thing, list_titles, wait_until


@pytest.fixture
def floor(database):
    """A store with the real schema."""
    store = open_store(database)
    store.write(lambda conn: conn.execute("INSERT INTO workspace (name, created_at) VALUES ('w', 1)"))
    yield store
    store.close()


@pytest.fixture
def floor_file(tmp_path):
    """A SQLite database with the real schema."""
    open_store(f"sqlite://{tmp_path}/floor.db").close()
    return tmp_path / "floor.db"


def test_backup_can_be_verified_and_restored_to_a_new_place(floor, tmp_path, databases):
    manifest = create_backup(floor, tmp_path)
    path = Path(manifest["path"])
    assert manifest["rows"]["workspace"] == 1
    assert verify_backup(path)["sha256"] == manifest["sha256"]
    assert path.stat().st_mode & 0o777 == 0o600
    url = f"sqlite://{tmp_path}/new/shopfloor.db" if floor.engine == "sqlite" else databases.take()
    restore_backup(path, url)
    restored = open_store(url)
    assert restored.read(lambda conn: conn.fetch_all("SELECT name FROM workspace")) == [("w",)]
    restored.close()
    if floor.engine == "postgres":
        databases.give_back(url)


def test_backup_of_sqlite_ends_under_load_and_has_every_acknowledged_write(sqlite, tmp_path):
    for number in range(200):
        sqlite.write(
            lambda conn, n=number: conn.execute(
                "INSERT INTO thing (title, body) VALUES (:t, :b)", t=f"{n}", b=bytes(20_000)
            )
        )
    done = threading.Event()
    acknowledged: list[str] = []

    def write() -> None:
        while not done.is_set():
            title = f"later {len(acknowledged)}"
            sqlite.write(insert_thing(title))
            acknowledged.append(title)

    writer = threading.Thread(target=write)
    writer.start()
    wait_until(lambda: len(acknowledged) > 20)
    before = list(acknowledged)
    try:
        create_backup(sqlite, tmp_path / "copy.db")
    finally:
        done.set()
        writer.join()
    copy = open_store(f"sqlite://{tmp_path}/copy.db", migrations=MIGRATIONS)
    titles = list_titles(copy)
    copy.close()
    assert set(before) <= set(titles)
    assert len(acknowledged) >= len(before)


@pytest.mark.parametrize("part", ["file", "manifest", "missing"])
def test_changed_backup_is_not_restored(floor, tmp_path, part):
    path = Path(create_backup(floor, tmp_path)["path"])
    manifest = path.with_name(path.name + ".manifest.json")
    if part == "file":
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif part == "manifest":
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"rows": {}}))
    else:
        manifest.unlink()
    with pytest.raises((StoreDamaged, InvalidInput)):
        verify_backup(path)
    with pytest.raises((StoreDamaged, InvalidInput)):
        restore_backup(path, f"sqlite://{tmp_path}/new.db")
    assert not (tmp_path / "new.db").exists()


def test_manifest_that_does_not_match_its_backup_is_rejected(floor, tmp_path):
    manifest = create_backup(floor, tmp_path / "copy")
    path = tmp_path / "copy.manifest.json"
    path.write_text(json.dumps(manifest | {"schema": manifest["schema"] + 1}))
    with pytest.raises(StoreDamaged, match="does not have the schema and the row counts of its manifest"):
        verify_backup(tmp_path / "copy")


@pytest.mark.parametrize(
    "text",
    ["[]", '{"shopfloor": "backup"}', "[" * 100_000, ""],
    ids=["a list", "one field", "deep nesting", "nothing"],
)
def test_file_that_is_not_a_manifest_is_named(floor, tmp_path, text):
    create_backup(floor, tmp_path / "copy")
    (tmp_path / "copy.manifest.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"copy.manifest.json is not a backup manifest"):
        verify_backup(tmp_path / "copy")


def test_backup_of_a_newer_version_is_not_restored(sqlite, tmp_path):
    sqlite.write(
        lambda conn: conn.execute("INSERT INTO schema_version (number, name, applied_at) VALUES (999, 'later', 0)")
    )
    create_backup(sqlite, tmp_path / "copy")
    with pytest.raises(SchemaTooNew, match="schema 999, newer than"):
        restore_backup(tmp_path / "copy", f"sqlite://{tmp_path}/new.db")
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("name", ["shopfloor.db", "shopfloor.db-wal"])
def test_restore_replaces_nothing(sqlite, tmp_path, name):
    path = Path(create_backup(sqlite, tmp_path / "copy.db")["path"])
    (tmp_path / name).write_text("mine")
    with pytest.raises(InvalidInput, match="already exists"):
        restore_backup(path, f"sqlite://{tmp_path}/shopfloor.db")
    assert (tmp_path / name).read_text() == "mine"


def test_backup_replaces_nothing_and_leaves_nothing_behind_when_it_fails(floor, tmp_path, monkeypatch):
    target = tmp_path / "mine"
    target.write_text("mine")
    with pytest.raises(InvalidInput, match="already exists"):
        create_backup(floor, target)
    assert target.read_text() == "mine"
    folder = tmp_path / "full"
    folder.mkdir()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreFull, match=f"The disk that holds {folder} is full"):
        create_backup(floor, folder / "copy")
    assert list(folder.iterdir()) == []


def test_backup_to_a_read_only_disk_says_so(floor, tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "open", fail)
    monkeypatch.setattr(os, "unlink", fail)
    with pytest.raises(InvalidInput, match="copy cannot be written: Read-only file system"):
        create_backup(floor, tmp_path / "copy")


def test_copy_that_does_not_fit_leaves_nothing_behind(floor_file, tmp_path):
    folder = tmp_path / "full"
    folder.mkdir()
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
    try:
        with pytest.raises(ShopfloorError):
            copy_file(floor_file, folder / "copy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert list(folder.iterdir()) == []


def test_files_of_a_killed_backup_are_removed_by_a_later_one(sqlite, tmp_path):
    killed, running, own = (tmp_path / name for name in (".a.1.shopfloor-part", ".b.2.shopfloor-part", ".c.3.part"))
    for each in (killed, running, own):
        each.write_bytes(b"half")
    os.utime(killed, (0, 0))
    os.utime(own, (0, 0))
    create_backup(sqlite, tmp_path / "copy.db")
    assert (killed.exists(), running.exists(), own.exists()) == (False, True, True)


def test_backup_of_sqlite_is_not_restored_to_postgres(sqlite, tmp_path):
    path = Path(create_backup(sqlite, tmp_path / "copy.db")["path"])
    with pytest.raises(InvalidInput, match="the database is PostgreSQL"):
        restore_backup(path, "postgresql://user@127.0.0.1:1/x")


def test_damaged_pages_are_found(tmp_path):
    url = f"sqlite://{tmp_path}/floor.db"
    store = open_store(url)
    assert store.find_damage() == []
    store.close()
    file = tmp_path / "floor.db"
    data = bytearray(file.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4096] = bytes(4096)
    file.write_bytes(data)
    store = open_store(url)
    assert store.find_damage() != []
    store.close()


def test_sound_store_has_no_damage(floor):
    assert floor.find_damage() == []
