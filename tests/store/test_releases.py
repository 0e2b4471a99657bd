"""Data of every released schema can be imported and migrated, and continues to work."""

from __future__ import annotations

import pytest

from shopfloor.errors import InvalidInput
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.store import open_store
from shopfloor.store.backups import import_file
from shopfloor.store.migrate import load_migrations
from shopfloor.store.transfer import check_export, read_header
from tests.store.release_data import RELEASES, fill_project

FILES = sorted(RELEASES.glob("*.jsonl"))


def test_first_release_is_kept():
    assert FILES[0].name == "0007.jsonl"


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    """Return the URL of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/floor.db"
    return request.getfixturevalue("postgres").create_database()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_data_of_a_released_schema_continues_to_work(file, database, tmp_path):
    assert read_header(file).schema == int(file.stem) <= len(load_migrations("sqlite"))
    before = check_export(file)
    assert import_file(file, database) == before
    with Shopfloor(Settings(project=tmp_path, database=database, embeddings="off")) as shopfloor:
        assert {agent["id"] for agent in shopfloor.list_agents()} == {"builder", "lead", "local"}
        (mail,) = shopfloor.call("factory", "mcp__mail__list_inbox", {}, "lead")["data"]["mails"]
        assert mail["subject"] == "Hello"
        shopfloor.refresh_index(embeddings=False)
        found = shopfloor.call("context", "context_search", {"query": "queue load"}, "builder")
        assert found["results"][0]["content"].startswith("Use a queue")
        tasks = shopfloor.call("todo", "list_tasks", {}, "guest")["tasks"]
        assert [task["title"] for task in tasks] == ["Buy milk"]
        done = shopfloor.call("desk", "task_complete", {"number": 1})
        assert "error" not in done
        assert shopfloor.call("desk", "store_verify")["ok"]


def test_older_export_is_not_imported_into_a_newer_schema(tmp_path):
    open_store(f"sqlite://{tmp_path}/floor.db").close()
    with pytest.raises(InvalidInput, match="the export is of schema 7"):
        import_file(FILES[0], f"sqlite://{tmp_path}/floor.db")


def test_every_part_of_the_product_can_be_kept_for_later_versions(database, tmp_path):
    with Shopfloor(Settings(project=tmp_path, database=database, embeddings="off")) as shopfloor:
        fill_project(shopfloor)
        done = shopfloor.call("desk", "export_create", {"target": str(tmp_path / "all.jsonl")})
    used = {table for table, rows in done["rows"].items() if rows}
    assert used >= {"agent", "decision", "dependency", "discovery", "epic", "event", "mail", "person", "run", "task"}
