"""Data of released schemas: one small export per schema, which every later version must be able to import.

`python -m tests.store.release_data` writes the one of the present schema to tests/store/releases. Run it before a
release; never change a file that was released.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.store import open_store
from shopfloor.store.backups import write_export_file
from shopfloor.store.migrate import load_migrations

RELEASES = Path(__file__).parent / "releases"


def fill_project(shopfloor: Shopfloor) -> None:
    """Do something with every part of the product."""
    shopfloor.create_agent("lead", "SUPERVISOR", issue_token=False)
    shopfloor.create_agent("builder", "WORKER", supervisor="lead")
    shopfloor.add_user("guest", role="viewer")
    calls: list[tuple[str, str, dict[str, Any], str | None]] = [
        ("factory", "mcp__epic__create", {"title": "Ship", "description": "All of it"}, "lead"),
        ("factory", "mcp__task__create", {"epicId": "epic-1", "title": "Design", "description": "Draw it"}, "lead"),
        ("desk", "task_create", {"title": "Build", "dependsOn": [1]}, None),
        ("factory", "mcp__mail__send", {"toAgentId": "lead", "subject": "Hello", "body": "I am here"}, "builder"),
        ("factory", "mcp__mail__send", {"toHuman": True, "subject": "Question", "body": "Which colour?"}, "builder"),
        ("factory", "mcp__system__log_decision", {"title": "Use a queue", "body": "Because of the load"}, "builder"),
        ("todo", "add_task", {"title": "Buy milk"}, "guest"),
        ("context", "record_discovery", {"type": "pattern", "content": "Handlers live in src/handlers"}, "builder"),
        ("run", "run_create", {"wanted_name": "night", "spec": "Do it", "options": "{}", "project": "/project"}, None),
    ]
    for toolset, tool, arguments, caller in calls:
        result = shopfloor.answer(toolset, tool, arguments, caller)
        assert result.error is None, (tool, result.body)
    assert shopfloor.answer("factory", "mcp__nope", {}, "builder").error is not None


def write_release() -> Path:
    """Write the file of the present schema."""
    target = RELEASES / f"{len(load_migrations('sqlite')):04}.jsonl"
    with tempfile.TemporaryDirectory() as folder:
        with Shopfloor(Settings(project=folder, embeddings="off")) as shopfloor:
            fill_project(shopfloor)
        store = open_store(f"sqlite://{folder}/.shopfloor/shopfloor.db")
        write_export_file(store, target)
        store.close()
    return target


if __name__ == "__main__":
    print(write_release())
