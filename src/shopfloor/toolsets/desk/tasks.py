"""What only a person decides about tasks."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import Field

from shopfloor.domain.ids import task_number
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.manners import toolset
from shopfloor.usecases import tasks

Word = Annotated[str, Field(max_length=4000)]


@toolset.tool("task_acceptance", idempotent=True)
def task_acceptance(
    work: Work,
    task_id: Annotated[str, Field(description="Such as task-15", max_length=64)],
    command: Annotated[list[Word], Field(description="Program and arguments; left out: none", max_length=100)] = [],  # noqa: B006 - the schema's default; nobody changes it
) -> Json:
    """Set the command whose success proves a task done. A runner executes it, never the server."""
    task = tasks.accept(work, task_number(task_id), command or None)
    return {"taskId": task_id, "acceptanceCommand": json.loads(task.acceptance) if task.acceptance else None}
