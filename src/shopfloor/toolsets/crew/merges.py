"""Tools for the merge queue of a crew."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.crews import Merge
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolsets.crew.contract import Fence, TaskNumber, get_retry_hint, lock_crew, toolset
from shopfloor.usecases import merge_queue

Commit = Annotated[str, Field(description="Id of the commit", min_length=1, max_length=64)]


@toolset.tool("merge_add")
def add_merge(
    uow: UnitOfWork,
    fence: Fence,
    task: TaskNumber,
    branch: Annotated[str, Field(description="Branch of the work", max_length=2000)],
    commit: Commit,
    review: Annotated[bool, Field(description="Whether it has to be reviewed first")],
) -> Merge:
    """Put the branch of a task into the merge queue."""
    return merge_queue.add_merge(uow, lock_crew(uow, fence), task, branch=branch, commit=commit, review=review)


@toolset.tool("merge_verified")
def record_verified(uow: UnitOfWork, fence: Fence, task: TaskNumber, commit: Commit) -> Merge:
    """Record the commit that was verified, before the branch of the crew moves to it."""
    return merge_queue.record_verified(uow, lock_crew(uow, fence), task, commit)


@toolset.tool("merge_requeue")
def requeue_merge(uow: UnitOfWork, fence: Fence, task: TaskNumber) -> Merge:
    """Put an entry back into the queue, because the branch of the crew has moved."""
    return merge_queue.requeue_merge(uow, lock_crew(uow, fence), task)


@toolset.tool("merge_done")
def record_merged(uow: UnitOfWork, fence: Fence, task: TaskNumber, commit: Commit) -> Merge:
    """Record that the crew's branch has the work, and complete the task."""
    return merge_queue.record_merged(uow, lock_crew(uow, fence), task, commit)


@toolset.tool("merge_return")
def return_merge(
    uow: UnitOfWork,
    fence: Fence,
    task: TaskNumber,
    output: Annotated[str, Field(description="Why it was not merged")],
    attempts: Annotated[int, Field(description="After how many attempts the task has failed", ge=1)],
    conflict: Annotated[bool, Field(description="Whether it conflicts with other work")] = False,
) -> Merge:
    """Send work back to its worker with the output; after too many attempts, fail the task."""
    crew = lock_crew(uow, fence)
    hint = get_retry_hint(crew)
    return merge_queue.return_merge(uow, crew, task, output, attempts=attempts, conflict=conflict, hint=hint)
