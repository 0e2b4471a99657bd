"""The database file: deleted, replaced, emptied, damaged, or on a full disk."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from shopfloor.errors import StartupError, StoreDamaged, StoreFull, StoreReplaced
from shopfloor.store import Store, open_store
from tests.store.support import MIGRATIONS, first_value, insert_thing, list_titles


def delete(path: Path) -> None:
    path.unlink()


def delete_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def replace(path: Path) -> None:
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    copy.replace(path)


def empty(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("change", [delete, delete_folder, replace, empty])
def test_store_whose_file_is_another_one_refuses_everything(tmp_path, change):
    folder = tmp_path / "data"
    folder.mkdir()
    store = open_store(f"sqlite://{folder}/floor.db", migrations=MIGRATIONS)
    store.write(insert_thing("before"))
    change(folder / "floor.db")
    with pytest.raises(StoreReplaced, match="deleted, replaced or emptied; nothing was written"):
        store.write(insert_thing("after"))
    assert isinstance(store.failure, StoreReplaced)
    for action in (store.check, store.flush, lambda: list_titles(store)):
        with pytest.raises(StoreReplaced):
            action()
    store.close()


def test_replaced_file_keeps_its_own_write_ahead_log(sqlite, tmp_path):
    sqlite.write(insert_thing("before"))
    replace(tmp_path / "floor.db")
    (tmp_path / "floor.db-wal").unlink()
    restored = tmp_path / "floor.db-wal"
    restored.write_bytes(b"of the restored database")
    with pytest.raises(StoreReplaced):
        sqlite.write(insert_thing("after"))
    sqlite.close()
    assert restored.read_bytes() == b"of the restored database"


def test_emptied_file_is_not_silently_created_again(tmp_path):
    url = f"sqlite://{tmp_path}/floor.db"
    open_store(url, migrations=MIGRATIONS).close()
    empty(tmp_path / "floor.db")
    with pytest.raises(StartupError, match="is empty, but it was a database before"):
        open_store(url, migrations=MIGRATIONS)
    assert (tmp_path / "floor.db").stat().st_size == 0


def test_damaged_page_makes_the_store_not_ready(tmp_path):
    url = f"sqlite://{tmp_path}/floor.db"
    store = open_store(url, migrations=MIGRATIONS)
    store.write(insert_thing("a"))
    page = store.read(
        lambda conn: first_value(conn.fetch_one("SELECT rootpage FROM sqlite_schema WHERE name = 'thing'"))
    )
    store.close()
    with (tmp_path / "floor.db").open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    store = open_store(url, migrations=MIGRATIONS)
    with pytest.raises(StoreDamaged, match="restore a backup"):
        store.check()
    store.close()


def test_damage_that_a_call_has_found_stays_reported(sqlite, monkeypatch):
    def find(_: object) -> None:
        raise StoreDamaged

    sqlite.check()
    with pytest.raises(StoreDamaged):
        sqlite.read(find)
    with pytest.raises(StoreDamaged):
        sqlite.check()


def test_full_disk_is_not_ready(sqlite: Store, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    with pytest.raises(StoreFull):
        sqlite.check()
