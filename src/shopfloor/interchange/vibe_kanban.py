"""Vibe Kanban: projects with tasks, in its SQLite database (`db.sqlite` in its data folder)."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from shopfloor.errors import InvalidInput
from shopfloor.interchange.plan import ImportedState, Plan, PlanItem, build_plan

_STATES: Mapping[str, ImportedState] = {"done": "COMPLETED", "inreview": "REVIEW", "cancelled": "CANCELLED"}


def read_vibe_kanban(path: Path) -> Plan:
    """Read the tasks of all projects. A project becomes an epic."""
    if not path.is_file():
        raise InvalidInput(f"{path} not found", field="file")
    try:
        # Read-only: the other program may run at the same time.
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            projects = database.execute("SELECT id, name FROM projects ORDER BY created_at, id").fetchall()
            tasks = database.execute(
                """
                SELECT id, project_id, title, description, status, updated_at FROM tasks
                ORDER BY created_at, id
                """
            ).fetchall()
    except sqlite3.Error as error:
        raise InvalidInput(f"{path} is not a Vibe Kanban database: {error}", field="file") from None
    epics = [PlanItem(id=_format_id(id), title=str(name), kind="epic") for id, name in projects]
    items = [
        PlanItem(
            id=_format_id(id),
            title=str(title),
            description=str(description or ""),
            state=_STATES.get(str(status), "PENDING"),
            epic=_format_id(project),
            completed_at=_to_iso(updated) if status == "done" else None,
        )
        for id, project, title, description, status, updated in tasks
    ]
    return build_plan([*epics, *items])


def _format_id(id: Any) -> str:
    """Return an id as text: the database has UUIDs as 16 bytes."""
    return id.hex() if isinstance(id, bytes) else str(id)


def _to_iso(moment: Any) -> str:
    return f"{str(moment).replace(' ', 'T', 1)}Z" if " " in str(moment) else str(moment)
