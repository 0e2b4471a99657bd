"""Task tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from shopfloor.domain.ids import epic_number, task_number
from shopfloor.domain.pages import listed, read_number_cursor, wanted
from shopfloor.domain.tasks import DEFAULT_PRIORITY, Task
from shopfloor.domain.tasks import State as TaskState
from shopfloor.domain.times import iso
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.factory.answers import task_answer
from shopfloor.toolsets.factory.arguments import AgentId, Description, EpicId, TaskId, Title, Words, shortened
from shopfloor.toolsets.factory.manners import toolset
from shopfloor.usecases import claims, tasks

COMMENTS_SHOWN = 20
BATCH = 100

State = Annotated[
    Literal["PENDING", "ASSIGNED", "IN_PROGRESS", "REVIEW", "BLOCKED", "COMPLETED", "FAILED", "CANCELLED"],
    Field(description="A state of a task"),
]
Priority = Annotated[int, Field(description="0 critical to 4 backlog, default 2", ge=0, le=4)]
Others = Annotated[list[TaskId], Field(description="Task ids", max_length=BATCH)]
Worktree = Annotated[str, Field(description="Path of the working copy", max_length=2000)]
Branch = Annotated[str, Field(description="Branch of the work", max_length=2000)]
Link = Annotated[str, Field(description="The pull request", max_length=2000)]
Comment = Annotated[str, Field(description="1-65536 characters", min_length=1, max_length=65536), Words]
Own = Annotated[str | None, Field(description="Default: your current task", max_length=64)]


@toolset.tool("mcp__task__create")
def create(
    work: Work,
    title: Title,
    description: Description = "",
    epic_id: EpicId | None = None,
    priority: Priority = DEFAULT_PRIORITY,
    depends_on: Others | None = None,
    worktree_path: Worktree | None = None,
    branch_name: Branch | None = None,
) -> Json:
    """Create a task, PENDING; it is ready when all that it depends on is COMPLETED."""
    task = tasks.create(
        work,
        title=title,
        description=description,
        epic=None if epic_id is None else epic_number(epic_id),
        priority=priority,
        depends_on=[task_number(id) for id in depends_on or ()],
        worktree_path=worktree_path,
        branch_name=branch_name,
    )
    return in_full(work, task)


@toolset.tool("mcp__task__get", read_only=True)
def get(work: Work, task_id: TaskId) -> Json:
    """Get a task with its newest comments, and what it waits for."""
    task = work.tasks.get(task_number(task_id))
    work.task = task.number
    answer = in_full(work, task)
    if blocked := tasks.why_blocked(work, task.number):
        answer["blockedBy"] = blocked
    answer["comments"] = [
        {"id": f"comment-{one.id}", "author": one.author, "body": one.body[:1000], "createdAt": iso(one.created_at)}
        for one in work.tasks.comments(task.number, COMMENTS_SHOWN)
    ]
    return answer


@toolset.tool("mcp__task__list", read_only=True)
def list_tasks(
    work: Work,
    epic_id: EpicId | None = None,
    state: State | None = None,
    assignee_id: AgentId | None = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Json:
    """List tasks by number; descriptions are cut at 200 characters."""
    board = None if epic_id is None else str(work.epics.get(epic_number(epic_id)).id)
    rows = work.tasks.page(
        limit=wanted(limit),
        after=read_number_cursor("tasks", cursor),
        state=None if state is None else TaskState(state),
        board=board,
        assignee=assignee_id,
    )
    blockers = work.tasks.blockers_of([task.number for task in rows])
    return listed(
        "tasks", rows, limit, lambda task: shortened(_spelled(task, blockers[task.number])), lambda task: task.number
    )


@toolset.tool("mcp__task__assign", idempotent=True)
def assign(work: Work, task_id: TaskId, agent_id: AgentId) -> Json:
    """Give a task to an agent, which is told by mail."""
    return in_full(work, claims.assign(work, task_number(task_id), agent_id))


@toolset.tool("mcp__task__claim")
def claim(work: Work, task_id: TaskId | None = None) -> Json:
    """Take the next ready task of your epic, or the given one; task is null when none is ready.
    It stays yours while you make calls; report with its fence."""
    task, reason = claims.claim(work, None if task_id is None else task_number(task_id))
    if task is None:
        return {"task": None, "reason": reason}
    lease = iso(claims.lease_end(work, task))
    return {"task": in_full(work, task), "fence": task.fence, "leaseExpiresAt": lease}


@toolset.tool("mcp__task__update", idempotent=True)
def update(
    work: Work,
    task_id: TaskId,
    title: Title | None = None,
    description: Description | None = None,
    priority: Priority | None = None,
    add_depends_on: Others | None = None,
    remove_depends_on: Others | None = None,
    version: Annotated[int | None, Field(description="Refuse if the task has changed since this version")] = None,
) -> Json:
    """Change a task's words, priority or dependencies."""
    changes: dict[str, Any] = {"title": title, "description": description, "priority": priority}
    task = tasks.edit(
        work,
        task_number(task_id),
        version=version,
        add=[task_number(id) for id in add_depends_on or ()],
        remove=[task_number(id) for id in remove_depends_on or ()],
        **{name: value for name, value in changes.items() if value is not None},
    )
    return in_full(work, task)


@toolset.tool("mcp__task__update_status")
def update_status(
    work: Work,
    state: State,
    task_id: Own = None,
    comment: Comment | None = None,
    pr_url: Link | None = None,
    branch_name: Branch | None = None,
    worktree_path: Worktree | None = None,
    fence: Annotated[int | None, Field(description="The fence of your claim")] = None,
) -> Json:
    """Move a task. Workers: IN_PROGRESS to REVIEW when done (a supervisor completes it), BLOCKED or FAILED."""
    facts = {"pr_url": pr_url, "branch_name": branch_name, "worktree_path": worktree_path}
    task = claims.report(
        work,
        claims.task_of(work, None if task_id is None else task_number(task_id)),
        TaskState(state),
        fence=fence,
        comment=comment,
        **{name: value for name, value in facts.items() if value is not None},
    )
    return in_full(work, task)


@toolset.tool("mcp__task__add_comment")
def add_comment(work: Work, body: Comment, task_id: Own = None) -> Json:
    """Comment on a task."""
    task = claims.task_of(work, None if task_id is None else task_number(task_id))
    return {"commentId": f"comment-{tasks.comment(work, task, body)}", "timestamp": iso(work.now)}


def in_full(work: Work, task: Task) -> Json:
    """A task with all that we know beyond the contract."""
    return _spelled(task, work.tasks.blockers(task.number))


def _spelled(task: Task, blockers: Sequence[int]) -> Json:
    answer = {
        **task_answer(task),
        "priority": task.priority,
        "dependsOn": [f"task-{number}" for number in blockers],
        "assigneeId": task.assignee,
        "attempts": task.attempts,
        "version": task.version,
    }
    return answer if task.acceptance is None else {**answer, "acceptanceCommand": json.loads(task.acceptance)}
