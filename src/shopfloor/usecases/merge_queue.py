"""The merge queue of a crew: verified branches are merged into the crew's branch, one at a time."""

from __future__ import annotations

from shopfloor.domain.crew_events import CrewChanged, TaskMerged
from shopfloor.domain.crews import Crew, Merge, MergeState
from shopfloor.domain.mail import SYSTEM
from shopfloor.domain.tasks import State
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import claims, crews


def add_merge(uow: UnitOfWork, crew: Crew, task: int, *, branch: str, commit: str, review: bool) -> Merge:
    """Put a task's branch into the queue, to be reviewed first or merged. Adding it again changes nothing."""
    known = uow.merges.find(task)
    if known is not None and known.state is MergeState.MERGED:
        return known
    if known is not None and known.commit == commit and known.state is not MergeState.RETURNED:
        return known
    state = MergeState.REVIEW if review else MergeState.QUEUED
    merge = uow.merges.put(task, crew=crew.name, branch=branch, commit=commit, state=state, now=uow.now)
    uow.emit(CrewChanged(crew=crew.name))
    return merge


def record_verified(uow: UnitOfWork, crew: Crew, task: int, commit: str) -> Merge:
    """Record the commit that was verified, before the branch of the crew moves to it."""
    merge = uow.merges.update(task, uow.now, state=MergeState.VERIFIED, merged_commit=commit)
    uow.emit(CrewChanged(crew=crew.name))
    return merge


def requeue_merge(uow: UnitOfWork, crew: Crew, task: int) -> Merge:
    """Put an entry back into the queue: the branch of the crew has moved since it was verified."""
    merge = uow.merges.update(task, uow.now, state=MergeState.QUEUED, merged_commit=None)
    uow.emit(CrewChanged(crew=crew.name))
    return merge


def record_merged(uow: UnitOfWork, crew: Crew, task: int, commit: str) -> Merge:
    """Record that the crew's branch has the work, and complete the task."""
    merge = uow.merges.update(task, uow.now, state=MergeState.MERGED, merged_commit=commit, output=None)
    uow.tasks.lock(task)
    found = uow.tasks.get(task)
    # A person may have cancelled it in the meantime. The work is merged, and the log says so.
    if found.state is State.REVIEW:
        claims.report_state(uow, found, State.COMPLETED, fence=None, comment=None)
    uow.tasks.add_comment(task, SYSTEM.name, f"Merged into {crew.branch} as {commit[:12]}", uow.now)
    uow.emit(TaskMerged(crew=crew.name, task=task, commit=commit))
    return merge


def return_merge(
    uow: UnitOfWork, crew: Crew, task: int, output: str, *, attempts: int, conflict: bool, hint: str
) -> Merge:
    """Send work back to its worker with the output; after too many attempts, fail the task and alert a person.

    A conflict does not count as an attempt: each means that another task was merged first, so they are limited.
    """
    uow.tasks.lock(task)
    found, known = uow.tasks.get(task), uow.merges.find(task)
    assert known is not None
    if found.state is not State.REVIEW:
        merge = uow.merges.update(task, uow.now, state=MergeState.RETURNED, output=output)
        uow.emit(CrewChanged(crew=crew.name))
        return merge
    holder = found.assignee
    # Leaving review removes the task from the queue and counts the attempt.
    claims.report_state(uow, found, State.IN_PROGRESS, fence=None, comment=None)
    uow.tasks.add_comment(task, SYSTEM.name, f"Not merged: {output}", uow.now)
    merge = uow.merges.update(task, uow.now, output=output, attempts=known.attempts + (not conflict))
    if merge.attempts >= attempts and holder is not None:
        first = output.splitlines()[0] if output else "it could not be merged"
        reason = f"it was returned {merge.attempts} times, the last time because: {first}"
        crews.return_task(uow, task, holder, reason, attempts=attempts, final=True, hint=hint)
    return merge
