"""Task tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from shopfloor.domain.ids import parse_epic_id, parse_task_id
from shopfloor.domain.pagination import fetch_size, parse_number_cursor, to_page
from shopfloor.domain.tasks import DEFAULT_PRIORITY, Task
from shopfloor.domain.tasks import State as TaskState
from shopfloor.domain.times import format_iso
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.factory.arguments import AgentId, Description, EpicId, NotBlank, TaskId, Title, shorten
from shopfloor.toolsets.factory.contract import toolset
from shopfloor.toolsets.factory.shapes import format_contract_task
from shopfloor.usecases import claims, tasks

MAX_COMMENTS = 20
MAX_DEPENDENCIES = 100

State = Annotated[
    Literal["PENDING", "ASSIGNED", "IN_PROGRESS", "REVIEW", "BLOCKED", "COMPLETED", "FAILED", "CANCELLED"],
    Field(description="State"),
]
Priority = Annotated[int, Field(description="0 critical to 4 backlog, default 2", ge=0, le=4)]
Others = Annotated[list[TaskId], Field(description="Task ids", max_length=MAX_DEPENDENCIES)]
Worktree = Annotated[str, Field(description="Path of the working copy", max_length=2000)]
Branch = Annotated[str, Field(description="Branch of the work", max_length=2000)]
Link = Annotated[str, Field(description="The pull request", max_length=2000)]
Comment = Annotated[str, Field(description="Text", min_length=1, max_length=65536), NotBlank]
Own = Annotated[str | None, Field(description="Default: your current task", max_length=64)]


@toolset.tool("mcp__task__create")
def create_task(
    uow: UnitOfWork,
    title: Title,
    description: Description = "",
    epic_id: EpicId | None = None,
    priority: Priority = DEFAULT_PRIORITY,
    depends_on: Others | None = None,
    worktree_path: Worktree | None = None,
    branch_name: Branch | None = None,
) -> Json:
    """Create a task in PENDING. It is ready when every task that it depends on is COMPLETED."""
    task = tasks.create_task(
        uow,
        title=title,
        description=description,
        epic=None if epic_id is None else parse_epic_id(epic_id),
        priority=priority,
        depends_on=[parse_task_id(id) for id in depends_on or ()],
        worktree_path=worktree_path,
        branch_name=branch_name,
    )
    return format_task(uow, task)


@toolset.tool("mcp__task__get", read_only=True)
def get_task(uow: UnitOfWork, task_id: TaskId) -> Json:
    """Get a task with its newest comments, and what it waits for."""
    task = uow.tasks.get(parse_task_id(task_id))
    uow.task = task.number
    answer = format_task(uow, task)
    if blocked := tasks.describe_blockers(uow, task.number):
        answer["blockedBy"] = blocked
    answer["comments"] = [
        {
            "id": f"comment-{one.id}",
            "author": one.author,
            "body": one.body[:1000],
            "createdAt": format_iso(one.created_at),
        }
        for one in uow.tasks.list_comments(task.number, MAX_COMMENTS)
    ]
    return answer


@toolset.tool("mcp__task__list", read_only=True)
def list_tasks(
    uow: UnitOfWork,
    epic_id: EpicId | None = None,
    state: State | None = None,
    assignee_id: AgentId | None = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Json:
    """List tasks by number; descriptions are cut at 200 characters."""
    board = None if epic_id is None else str(uow.epics.get(parse_epic_id(epic_id)).id)
    rows = uow.tasks.list_page(
        limit=fetch_size(limit),
        after=parse_number_cursor("tasks", cursor),
        state=None if state is None else TaskState(state),
        board=board,
        assignee=assignee_id,
    )
    # One query for the page instead of one per task.
    blockers = uow.tasks.map_blockers([task.number for task in rows])
    return to_page(
        "tasks",
        rows,
        limit,
        lambda task: shorten(_format_fields(task, blockers[task.number])),
        lambda task: task.number,
    )


@toolset.tool("mcp__task__assign", idempotent=True)
def assign_task(uow: UnitOfWork, task_id: TaskId, agent_id: AgentId) -> Json:
    """Assign a task to an agent, which is notified by mail."""
    return format_task(uow, claims.assign_task(uow, parse_task_id(task_id), agent_id))


@toolset.tool("mcp__task__claim")
def claim_task(uow: UnitOfWork, task_id: TaskId | None = None) -> Json:
    """Take the next ready task of your epic, or the given one; task is null when none is ready.
    Each call renews the lease; pass `fence` when you report."""
    task, reason = claims.claim_task(uow, None if task_id is None else parse_task_id(task_id))
    if task is None:
        return {"task": None, "reason": reason}
    lease = format_iso(claims.get_lease_expiry(uow, task))
    return {"task": format_task(uow, task), "fence": task.fence, "leaseExpiresAt": lease}


@toolset.tool("mcp__task__update", idempotent=True)
def update_task(
    uow: UnitOfWork,
    task_id: TaskId,
    title: Title | None = None,
    description: Description | None = None,
    priority: Priority | None = None,
    add_depends_on: Others | None = None,
    remove_depends_on: Others | None = None,
    version: Annotated[
        int | None, Field(description="Reject the change if the task is no longer at this version")
    ] = None,
) -> Json:
    """Change a task's title, description, priority or dependencies."""
    changes: dict[str, Any] = {"title": title, "description": description, "priority": priority}
    task = tasks.edit_task(
        uow,
        parse_task_id(task_id),
        version=version,
        add=[parse_task_id(id) for id in add_depends_on or ()],
        remove=[parse_task_id(id) for id in remove_depends_on or ()],
        **{name: value for name, value in changes.items() if value is not None},
    )
    return format_task(uow, task)


@toolset.tool("mcp__task__update_status", critical=True)
def update_status(
    uow: UnitOfWork,
    state: State,
    task_id: Own = None,
    comment: Comment | None = None,
    pr_url: Link | None = None,
    branch_name: Branch | None = None,
    worktree_path: Worktree | None = None,
    fence: Annotated[int | None, Field(description="The fence of your claim")] = None,
) -> Json:
    """Move a task. Workers move it to REVIEW when the work is done, to BLOCKED or FAILED when it cannot be."""
    facts = {"pr_url": pr_url, "branch_name": branch_name, "worktree_path": worktree_path}
    task = claims.report_state(
        uow,
        claims.get_held_task(uow, None if task_id is None else parse_task_id(task_id)),
        TaskState(state),
        fence=fence,
        comment=comment,
        **{name: value for name, value in facts.items() if value is not None},
    )
    return format_task(uow, task)


@toolset.tool("mcp__task__add_comment")
def add_comment(uow: UnitOfWork, body: Comment, task_id: Own = None) -> Json:
    """Comment on a task."""
    task = claims.get_held_task(uow, None if task_id is None else parse_task_id(task_id))
    return {"commentId": f"comment-{tasks.add_comment(uow, task, body)}", "timestamp": format_iso(uow.now)}


def format_task(uow: UnitOfWork, task: Task) -> Json:
    """Render a task with the fields that we add to the contract."""
    return _format_fields(task, uow.tasks.list_blockers(task.number))


def _format_fields(task: Task, blockers: Sequence[int]) -> Json:
    answer = {
        **format_contract_task(task),
        "priority": task.priority,
        "dependsOn": [f"task-{number}" for number in blockers],
        "assigneeId": task.assignee,
        "attempts": task.attempts,
        "version": task.version,
    }
    return answer if task.acceptance is None else {**answer, "acceptanceCommand": json.loads(task.acceptance)}
