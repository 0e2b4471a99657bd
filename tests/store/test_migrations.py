"""Migrations run in order, each atomically and once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shopfloor.errors import BadSettings, SchemaOutdated, SchemaTooNew, StartupError, StoreFailed, StoreUnreachable
from shopfloor.store import open_store, schema_version
from tests.store.support import MIGRATIONS, Child, increment_counter, insert_thing, list_titles


@pytest.fixture
def folder(tmp_path) -> Path:
    return Path(shutil.copytree(MIGRATIONS, tmp_path / "migrations"))


def add(folder: Path, name: str, sql: str) -> None:
    for engine in ("sqlite", "postgres"):
        (folder / engine / name).write_text(sql)


def test_a_new_store_gets_every_migration(store, url):
    assert schema_version(url) == 2
    rows = store.read(
        lambda conn: conn.fetch_all("SELECT number, name, applied_at > 0 FROM schema_version ORDER BY number")
    )
    assert rows == [(1, "things", 1), (2, "counted", 1)]


def test_migration_may_contain_a_trigger(store):
    for _ in range(2):
        store.write(lambda conn: conn.execute("INSERT INTO note VALUES ('x')"))
    assert store.read(lambda conn: conn.fetch_one("SELECT n FROM counter WHERE name = 'notes'")) == (2,)


def test_absent_store_has_version_zero(url):
    assert schema_version(url) == 0


def test_old_store_gets_only_the_new_migrations(url, folder):
    store = open_store(url, migrations=folder)
    store.write(insert_thing("kept"))
    store.close()
    add(folder, "0003_more.sql", "CREATE TABLE more (n INTEGER); INSERT INTO more VALUES (1);")
    for _ in range(2):
        store = open_store(url, migrations=folder)
        assert store.read(lambda conn: conn.fetch_all("SELECT n FROM more")) == [(1,)]
        assert list_titles(store) == ["kept"]
        store.close()
    assert schema_version(url) == 3


def test_an_interrupted_migration_leaves_the_old_state(url, folder):
    open_store(url, migrations=folder).close()
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
    assert store.read(lambda conn: conn.fetch_all("SELECT n FROM half")) == []
    store.close()


def test_a_newer_store_is_refused(url, folder):
    add(folder, "0003_more.sql", "CREATE TABLE more (n INTEGER);")
    open_store(url, migrations=folder).close()
    with pytest.raises(SchemaTooNew) as refusal:
        open_store(url, migrations=MIGRATIONS)
    assert refusal.value.facts == {"found": 3, "known": 2}


def test_six_processes_can_migrate_a_new_store_at_once(url):
    others = [Child("migrate", url) for _ in range(6)]
    for other in others:
        other.start()
    assert [other.read_rest() for other in others] == [["2\n"]] * 6
    store = open_store(url, migrations=MIGRATIONS)
    assert store.read(lambda conn: conn.fetch_one("SELECT COUNT(*) FROM schema_version")) == (2,)
    assert store.write(increment_counter) == 1
    store.close()


@pytest.mark.parametrize("name", ["0004_gap.sql", "0002_twice.sql", "3_short.sql", "0003-dash.sql"])
def test_migrations_with_wrong_numbers_or_names_are_refused(tmp_path, folder, name):
    add(folder, name, "SELECT 1;")
    with pytest.raises(StartupError):
        open_store(f"sqlite://{tmp_path}/floor.db", migrations=folder)


@pytest.mark.parametrize("url", ["", "floor.db", "mysql://x/y", "sqlite:floor.db", "sqlite://floor.db"])
def test_unsupported_store_url_is_refused(url):
    with pytest.raises(BadSettings):
        open_store(url)


def test_invalid_url_is_refused_and_an_absent_server_is_unreachable():
    with pytest.raises(BadSettings):
        open_store("postgresql://localhost/x?nonsense=1")
    with pytest.raises(StoreUnreachable, match="Connection refused"):
        open_store("postgresql://user@127.0.0.1:1/floor")


def test_error_about_an_invalid_url_does_not_contain_its_password():
    with pytest.raises(BadSettings) as refusal:
        open_store("postgresql://me:hush%zz@host/x")
    assert "hush" not in str(refusal.value)


def test_store_of_another_build_with_the_same_numbers_is_refused(url, folder):
    add(folder, "0003_more.sql", "CREATE TABLE more (n INTEGER);")
    open_store(url, migrations=folder).close()
    add(folder, "0003_more.sql", "CREATE TABLE more (n INTEGER, m INTEGER);")
    with pytest.raises(StartupError, match=r"another build of Shopfloor: its migration 0003 \('more'\)"):
        open_store(url, migrations=folder)


def test_store_from_before_digests_is_compared_by_name(url, folder):
    store = open_store(url, migrations=folder)
    store.write(lambda conn: conn.execute("ALTER TABLE schema_version DROP COLUMN digest"))
    store.close()
    add(folder, "0003_more.sql", "CREATE TABLE more (n INTEGER);")
    store = open_store(url, migrations=folder)
    rows = store.read(lambda conn: conn.fetch_all("SELECT number, digest IS NULL FROM schema_version ORDER BY number"))
    assert [(number, bool(missing)) for number, missing in rows] == [(1, True), (2, True), (3, False)]
    store.write(lambda conn: conn.execute("UPDATE schema_version SET name = 'other' WHERE number = 1"))
    store.close()
    with pytest.raises(StartupError, match=r"migration 0001 \('other'\) is not the one of this build \('things'\)"):
        open_store(url, migrations=folder)


def test_older_store_is_refused_without_migrate(url, folder):
    open_store(url, migrations=folder, migrate=False).close()
    add(folder, "0003_more.sql", "CREATE TABLE more (n INTEGER);")
    with pytest.raises(SchemaOutdated) as refusal:
        open_store(url, migrations=folder, migrate=False)
    assert refusal.value.facts == {"found": 2, "known": 3}
    assert schema_version(url) == 2


def test_sqlite_is_copied_before_it_is_migrated(sqlite, folder, tmp_path):
    sqlite.write(insert_thing("kept"))
    sqlite.close()
    add(folder, "0003_more.sql", "DELETE FROM thing;")
    open_store(f"sqlite://{tmp_path}/floor.db", migrations=folder).close()
    (copy,) = (tmp_path / "backups").iterdir()
    store = open_store(f"sqlite://{copy}", migrations=MIGRATIONS)
    assert list_titles(store) == ["kept"]
    store.close()
