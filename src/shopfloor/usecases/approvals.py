"""Approval of work before it is merged: a person or a leading agent completes the task, or sends it back.

While the branch of a task is in the merge queue of a crew, the queue decides when the task is completed.
"""

from __future__ import annotations

from shopfloor.domain.crew_events import CrewChanged
from shopfloor.domain.crews import OPEN_MERGES, MergeState
from shopfloor.domain.mail import SYSTEM
from shopfloor.domain.runs import RunState
from shopfloor.domain.tasks import State, Task
from shopfloor.errors import PermissionDenied
from shopfloor.repositories.uow import UnitOfWork


def check_reviewer(uow: UnitOfWork, task: Task) -> None:
    """Reject a reviewer whose review is about another task or already decided."""
    merge = uow.merges.find(task.number)
    run = None if merge is None else uow.runs.find(f"{merge.crew}.review-{task.number}")
    is_open = (
        merge is not None and merge.state is MergeState.REVIEW and run is not None and run.state is RunState.ACTIVE
    )
    if run is None or not is_open or run.worker != uow.actor.name:
        raise PermissionDenied(f"You do not review task-{task.number}", hint="Decide about the task that you review")


def settle_merge(uow: UnitOfWork, task: Task, state: State, comment: str | None) -> bool:
    """Apply the move of a task to the merge queue, and return whether the task keeps its state.

    Completing a queued task approves it: it stays in review until it is verified and merged. Any other move out of
    review removes it from the queue, and counts as an attempt.
    """
    merge = uow.merges.find(task.number)
    if merge is None or merge.state not in OPEN_MERGES or task.state is not State.REVIEW or state is State.REVIEW:
        return False
    approved = state is State.COMPLETED
    if approved and merge.state is MergeState.REVIEW:
        uow.merges.update(merge.task, uow.now, state=MergeState.QUEUED, approved_by=uow.actor.key)
        text = f"Approved by {uow.actor.name}; it is completed when it is merged"
        uow.tasks.add_comment(merge.task, SYSTEM.name, text, uow.now)
    elif not approved:
        changes = {"state": MergeState.RETURNED, "output": comment, "attempts": merge.attempts + 1}
        uow.merges.update(merge.task, uow.now, **changes)
    uow.emit(CrewChanged(crew=merge.crew))
    return approved
