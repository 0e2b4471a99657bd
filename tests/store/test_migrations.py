"""Numbered SQL files: in order, each whole or not at all, never twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shopfloor.errors import BadSettings, SchemaTooNew, StartRefused, StoreFailed, StoreUnreachable
from shopfloor.store.database import open_store, schema_version
from tests.store.support import MIGRATIONS, Child, bump, put, titles


@pytest.fixture
def folder(tmp_path) -> Path:
    return Path(shutil.copytree(MIGRATIONS, tmp_path / "migrations"))


def add(folder: Path, name: str, sql: str) -> None:
    for engine in ("sqlite", "postgres"):
        (folder / engine / name).write_text(sql)


def test_a_new_store_gets_every_migration(store, url):
    assert schema_version(url) == 2
    rows = store.read(lambda conn: conn.all("SELECT number, name, applied_at > 0 FROM schema_version ORDER BY number"))
    assert rows == [(1, "things", 1), (2, "counted", 1)]


def test_a_migration_may_hold_a_trigger(store):
    for _ in range(2):
        store.write(lambda conn: conn.execute("INSERT INTO note VALUES ('x')"))
    assert store.read(lambda conn: conn.one("SELECT n FROM counter WHERE name = 'notes'")) == (2,)


def test_what_is_not_there_yet_has_version_zero(url):
    assert schema_version(url) == 0


def test_an_old_store_gets_only_what_is_new(url, folder):
    store = open_store(url, migrations=folder)
    store.write(put("kept"))
    store.close()
    add(folder, "0003_more.sql", "CREATE TABLE more (n INTEGER); INSERT INTO more VALUES (1);")
    for _ in range(2):
        store = open_store(url, migrations=folder)
        assert store.read(lambda conn: conn.all("SELECT n FROM more")) == [(1,)]
        assert titles(store) == ["kept"]
        store.close()
    assert schema_version(url) == 3


def test_an_interrupted_migration_leaves_the_old_state(url, folder):
    add(
        folder,
        "0003_broken.sql",
        "CREATE TABLE half (n INTEGER); INSERT INTO half VALUES (1); INSERT INTO nowhere VALUES (1);",
    )
    for _ in range(2):
        with pytest.raises(StoreFailed):
            open_store(url, migrations=folder)
        assert schema_version(url) == 2
    add(folder, "0003_broken.sql", "CREATE TABLE half (n INTEGER);")
    store = open_store(url, migrations=folder)
    assert store.read(lambda conn: conn.all("SELECT n FROM half")) == []
    store.close()


def test_a_newer_store_is_refused(url, folder):
    add(folder, "0003_more.sql", "CREATE TABLE more (n INTEGER);")
    open_store(url, migrations=folder).close()
    with pytest.raises(SchemaTooNew) as refusal:
        open_store(url, migrations=MIGRATIONS)
    assert refusal.value.facts == {"found": 3, "known": 2}


def test_six_processes_may_start_at_once_on_nothing(url):
    others = [Child("migrate", url) for _ in range(6)]
    for other in others:
        other.go()
    assert [other.rest() for other in others] == [["2\n"]] * 6
    store = open_store(url, migrations=MIGRATIONS)
    assert store.read(lambda conn: conn.one("SELECT COUNT(*) FROM schema_version")) == (2,)
    assert store.write(bump) == 1
    store.close()


@pytest.mark.parametrize("name", ["0004_gap.sql", "0002_twice.sql", "3_short.sql", "0003-dash.sql"])
def test_wrong_numbers_and_names_are_refused(tmp_path, folder, name):
    add(folder, name, "SELECT 1;")
    with pytest.raises(StartRefused):
        open_store(f"sqlite://{tmp_path}/floor.db", migrations=folder)


@pytest.mark.parametrize("url", ["", "floor.db", "mysql://x/y", "sqlite:floor.db", "sqlite://floor.db"])
def test_an_address_that_is_no_store_is_refused(url):
    with pytest.raises(BadSettings):
        open_store(url)


def test_a_wrong_address_is_refused_and_an_absent_server_is_unreachable():
    with pytest.raises(BadSettings):
        open_store("postgresql://localhost/x?nonsense=1")
    with pytest.raises(StoreUnreachable, match="Connection refused"):
        open_store("postgresql://nobody@127.0.0.1:1/floor")


def test_an_address_that_cannot_be_read_does_not_give_away_its_password():
    with pytest.raises(BadSettings) as refusal:
        open_store("postgresql://me:hush%zz@host/x")
    assert "hush" not in str(refusal.value)
