"""Tools for a person's decisions on tasks: the acceptance command, and the approval of the work."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import Field

from shopfloor.domain.ids import parse_task_id
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases import changes, tasks
from shopfloor.usecases.external import ExternalContext

Word = Annotated[str, Field(max_length=4000)]


@toolset.tool("task_acceptance", admin=True, approval=True, idempotent=True)
def set_acceptance(
    uow: UnitOfWork,
    task_id: Annotated[str, Field(description="Such as task-15", max_length=64)],
    command: Annotated[
        list[Word], Field(description="Program and arguments; omit to remove the command", max_length=100)
    ] = [],  # noqa: B006 - the default of the schema, never changed
) -> Json:
    """Set the command whose success proves a task done.

    For the operator alone: a runner executes the command on its machine.
    """
    task = tasks.set_acceptance(uow, parse_task_id(task_id), command or None)
    return {"taskId": task_id, "acceptanceCommand": json.loads(task.acceptance) if task.acceptance else None}


@toolset.tool("task_changes", read_only=True, external=True)
def show_changes(external: ExternalContext, number: Annotated[int, Field(description="Such as 15", ge=1)]) -> Json:
    """Show the changes of a task file by file: from its worktree, from its branch, or as merged."""
    found = changes.load_task_changes(external, number)
    return {
        "source": found.source,
        "truncated": found.truncated,
        "files": [
            {"path": file.path, "added": file.added, "removed": file.removed, "diff": file.text} for file in found.files
        ],
    }
