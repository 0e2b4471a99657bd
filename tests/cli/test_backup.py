"""The commands backup, restore, verify, migrate, export and import."""

from __future__ import annotations

import gc
import json

import apsw
import pytest

from shopfloor.app import build
from shopfloor.domain.principals import OPERATOR
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.store import open_store, schema_version
from shopfloor.store.migrate import load_migrations
from shopfloor.transports.server import lock_data_folder
from shopfloor.usecases import seals
from tests.store.faults import FailingDisk


def list_titles(project, **settings):
    with Shopfloor(Settings(project=project, **settings)) as shopfloor:
        entries = shopfloor.call("desk", "log_search", {"outcome": "decision", "desk": True})["calls"]
    return [entry["summary"] for entry in entries]


def test_backup_and_restore_bring_the_agents_to_a_new_folder(run, run_json, project):
    run("agent", "add", "builder", "--no-token")
    manifest = run_json("backup")
    assert manifest["path"].startswith(str(project / ".shopfloor" / "backups" / "shopfloor-"))
    assert run_json("verify", manifest["path"])["sha256"] == manifest["sha256"]
    code, out, err = run("restore", manifest["path"], "--data", "other")
    assert (code, err) == (0, "")
    assert out.startswith("Restored ")
    assert run_json("agent", "show", "builder", "--data", "other")["id"] == "builder"
    assert list_titles(project, data=project / "other") == ["Restored from a backup"]


def test_restore_refuses_a_running_server_and_a_database_that_exists(run, run_json, project):
    run("agent", "add", "builder", "--no-token")
    path = run_json("backup", "copy.db")["path"]
    with lock_data_folder(Settings(project=project)):
        code, _, err = run("restore", path)
        assert code == 1
        assert "Stop it first" in err
    code, _, err = run("restore", path)
    assert code == 1
    assert "already exists.\n  Move it away first, or name another --data folder" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("backup",),
        ("backup", "copy.db"),
        ("verify",),
        ("log", "verify"),
        ("export", "jsonl", "all.jsonl"),
        ("compact",),
        ("admin", "rotate", "operator-token"),
    ],
)
def test_a_place_without_a_database_is_rejected_and_stays_empty(run, project, arguments):
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert f"There is no database at {project / '.shopfloor' / 'shopfloor.db'}" in err
    assert list(project.iterdir()) == []


def test_an_empty_postgres_database_is_rejected_and_stays_empty(run, project, postgres):
    database = postgres.create_database()
    for arguments in (("backup", "copy.gz"), ("verify",), ("log", "verify"), ("export", "jsonl", "all.jsonl")):
        code, out, err = run(*arguments, "--database", database)
        assert (code, out) == (1, "")
        assert "The database has no Shopfloor tables" in err
    assert "there is no database yet" in run("doctor", "--database", database)[1]
    assert schema_version(database) == 0


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "arguments", [("restore", "missing.db"), ("verify", "missing.db"), ("import", "jsonl", "missing")]
)
def test_missing_file_is_named(run, arguments):
    code, _, err = run(*arguments)
    assert code == 1
    assert "missing" in err


def test_verify_reports_each_part(run, run_json, project):
    run("agent", "add", "first", "--no-token")
    run("user", "add", "guest")
    assert run("verify")[:2] == (0, "store: ok\nindex: ok\nlog: ok\nseals: ok\n")
    with Shopfloor(Settings(project=project)) as shopfloor:
        shopfloor.engine.database.store.write(
            lambda conn: conn.execute("DELETE FROM decision WHERE kind = 'invocation' AND tool = 'user_add'")
        )
    code, out, _ = run("verify")
    assert code == 1
    assert "log: 1 results have no invocation, the first is log-" in out


def test_export_and_import_move_a_project_to_postgres(run, run_json, project, postgres_database):
    run("agent", "add", "builder", "--no-token")
    done = run_json("export", "jsonl", "all.jsonl.gz")
    assert done["rows"]["agent"] == 2
    imported = run_json("import", "jsonl", "all.jsonl.gz", "--database", postgres_database)
    assert imported["rows"] == done["rows"]
    assert run_json("agent", "show", "builder", "--database", postgres_database)["id"] == "builder"
    assert list_titles(project, database=postgres_database) == ["Imported from an export"]
    code, _, err = run("import", "jsonl", "all.jsonl.gz", "--database", postgres_database)
    assert (code, err.splitlines()[0]) == (1, "shopfloor: The database already has rows. Import into an empty one.")


def make_older(project) -> int:
    """Create a database of the schema before the last one, and return the last one's number."""
    last = len(load_migrations("sqlite"))
    open_store(f"sqlite://{project}/.shopfloor/shopfloor.db", version=last - 1).close()
    return last


def test_commands_leave_an_older_database_to_migrate_which_copies_it_before(run, run_json, project):
    assert run("migrate", "--check")[:2] == (0, "There is no database yet\n")
    last = make_older(project)
    for arguments in (("agent", "list"), ("stdio",), ("migrate", "--check")):
        code, out, err = run(*arguments)
        assert (code, out) == (1, "")
        assert f"The database has schema {last - 1}, and this version needs schema {last}.\n  Migrate it" in err
    with lock_data_folder(Settings(project=project)):
        assert "Stop it first" in run("migrate")[2]
    assert run_json("migrate") == {"from": last - 1, "to": last}
    (copy,) = (project / ".shopfloor" / "backups").iterdir()
    assert copy.name.startswith(f"schema-{last - 1:04}-")
    assert run("migrate", "--check")[:2] == (0, f"The schema is at version {last}\n")
    assert [agent["id"] for agent in run_json("agent", "list")] == ["local"]


def test_server_migrates_an_older_database(project):
    last = make_older(project)
    build(Settings(project=project), migrate=True).stop()
    store = open_store(f"sqlite://{project}/.shopfloor/shopfloor.db", migrate=False)
    assert store.read(lambda conn: conn.fetch_one("SELECT max(number) FROM schema_version")) == (last,)
    store.close()


def test_manifest_is_json_beside_the_backup(run, run_json, project):
    run("agent", "add", "builder", "--no-token")
    run_json("backup", "copy.db")
    manifest = json.loads((project / "copy.db.manifest.json").read_text())
    assert (manifest["engine"], manifest["file"]) == ("sqlite", "copy.db")


def test_compact_gives_the_space_of_deleted_rows_back(run, run_json, project):
    with Shopfloor(Settings(project=project)) as shopfloor:
        for _ in range(30):
            shopfloor.call("factory", "mcp__system__log_decision", {"title": "t", "body": "b" * 60_000})
        shopfloor.engine.database.store.write(lambda conn: conn.execute("DELETE FROM decision"))
    with lock_data_folder(Settings(project=project)):
        assert "Stop it first" in run("compact")[2]
    done = run_json("compact")
    assert done["bytesAfter"] < done["bytesBefore"] - 1_000_000
    assert run("verify")[0] == 0


def test_only_sqlite_can_be_compacted(run):
    code, _, err = run("compact", "--database", "postgresql://user@127.0.0.1:1/x")
    assert (code, err) == (
        1,
        "shopfloor: Only a SQLite database file can be compacted; PostgreSQL does it itself.\n",
    )


def test_log_verify_names_what_was_changed(run, run_json, project):
    with Shopfloor(Settings(project=project)) as shopfloor:
        shopfloor.call("factory", "mcp__system__log_decision", {"title": "t", "body": "b"})
        database = shopfloor.engine.database
        database.store.flush()
        seals.seal_log(database, 3)
    anchor = run_json("log", "verify")["lastSeal"]
    code, out, _ = run("log", "verify", "--anchor", anchor)
    assert (code, out) == (0, f"3 rows in 1 seal match their digests\nLast seal: {anchor}\n")
    with Shopfloor(Settings(project=project)) as shopfloor:
        shopfloor.engine.database.store.write(lambda conn: conn.execute("UPDATE decision SET actor = 'x' WHERE id = 2"))
    code, out, _ = run("log", "verify")
    assert (code, out.splitlines()[0]) == (1, "log-2 was changed after seal 1")
    with Shopfloor(Settings(project=project)) as shopfloor:
        sealed = shopfloor.engine.database.read(lambda uow: uow.seals.find_last(), OPERATOR)
        assert sealed is not None
        shopfloor.engine.database.write(lambda uow: uow.seals.purge(sealed, uow.now), OPERATOR)
    code, out, _ = run("log", "verify")
    assert (code, out.splitlines()[1]) == (0, "3 older rows were deleted by retention")


def test_commands_that_read_work_on_a_full_disk(run, run_json, project, caplog):
    run("agent", "add", "builder", "--no-token")
    disk = FailingDisk()
    try:
        disk.fail("write", apsw.FullError, times=1_000)
        assert [agent["id"] for agent in json.loads(run("agent", "list", "--json")[1])] == ["builder", "local"]
        assert disk.failures
    finally:
        disk.unregister()
        gc.collect()
    # The rows of the log are lost. Commands print these lines on a terminal.
    dropped = [record for record in caplog.records if "a deferred write was dropped" in record.message]
    assert dropped
    assert {record.exc_info for record in dropped} == {None}
    assert run("agent", "add", "later", "--no-token")[0] == 0
