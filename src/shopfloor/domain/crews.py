"""Crews: several agents work on one epic in parallel, each task in its own worktree, and only verified work is merged."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from shopfloor.domain.runs import RunState, Wanted
from shopfloor.domain.tasks import FINISHED, Comment, State, Task
from shopfloor.errors import InvalidState, NotFound


class Phase(StrEnum):
    """What a crew does: an agent plans, a person reviews the plan, workers work."""

    PLAN = "plan"
    APPROVAL = "approval"
    WORK = "work"


class Role(StrEnum):
    """What an agent does in a crew."""

    PLANNER = "planner"
    WORKER = "worker"
    REVIEWER = "reviewer"


class MergeState(StrEnum):
    """The state of a task's branch in the merge queue of a crew.

    It waits for a review, then in the queue. `VERIFIED` is stored before the crew's branch moves, `MERGED` after, so
    that a crash between the two is detected. `RETURNED` work is with its worker again.
    """

    REVIEW = "review"
    QUEUED = "queued"
    VERIFIED = "verified"
    MERGED = "merged"
    RETURNED = "returned"


OPEN_MERGES = (MergeState.REVIEW, MergeState.QUEUED, MergeState.VERIFIED)
"""The states in which the merge queue decides when the task completes."""


MAX_CREW_TASKS = 1000
"""Maximum number of tasks of an epic that a crew works on. The rest are left to the next crew."""


class CrewNotFound(NotFound):
    """Crew '{crew}' not found"""


@dataclass(frozen=True, slots=True)
class Crew:
    """A crew as stored. `branch` holds verified work only; `base` is the commit that it started from.

    `spent` is in microseconds and counts up to `accounted_at`, which is None while the crew's clock is stopped.
    """

    name: str
    epic: int
    state: RunState
    wanted: Wanted
    phase: Phase
    workers: int
    reason: str | None
    report: str | None
    project: str
    branch: str
    base: str
    options: str
    process: int | None
    fence: int
    spent: int
    accounted_at: int | None
    created_at: int
    updated_at: int
    ended_at: int | None


@dataclass(frozen=True, slots=True)
class Merge:
    """A task's branch in the merge queue of a crew. `attempts` counts how often it was returned."""

    task: int
    crew: str
    branch: str
    commit: str
    state: MergeState
    merged_commit: str | None
    attempts: int
    output: str | None
    approved_by: str | None
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class CrewStatus:
    """The status that the driver of a crew reacts to at once.

    `tasks` counts the tasks of the epic by state, `ready` those that can be claimed. `held` has the tasks that each
    agent works on or can start, and those that it reported as done and that are in no merge queue. `finished` are the
    tasks that need no more work. `merges` are the open entries of the queue. `questions` are the mails in which the
    holders of blocked tasks ask a person, and that have no answer yet.
    """

    crew: Crew
    tasks: dict[str, int]
    ready: int
    held: dict[str, list[int]]
    finished: tuple[int, ...]
    newest_change: int
    merges: tuple[Merge, ...]
    questions: tuple[int, ...]

    @property
    def waits_for_answer(self) -> bool:
        """Whether a person was asked, and no task can move without the answer."""
        return bool(self.questions) and not (self.ready or self.held or self.merges)

    @property
    def version(self) -> str:
        """A short text that changes with the status."""
        crew = self.crew
        merges = [(merge.task, merge.state, merge.updated_at) for merge in self.merges]
        text = f"{crew.state} {crew.wanted} {crew.phase} {crew.workers} {self.tasks} {self.newest_change} {merges}"
        text += f" {self.questions}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class CrewTask:
    """A task as its worker, its reviewer and the merge queue see it."""

    task: Task
    comments: tuple[Comment, ...]
    merge: Merge | None


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A mail in which an agent of a crew asked a person, with the answer if there is one."""

    mail: int
    agent: str
    subject: str
    answer: str | None
    answered_by: str | None


def find_stuck_tasks(tasks: list[Task], blockers: dict[int, list[int]]) -> list[Task] | None:
    """Return the open tasks of an epic if none of them can move by itself, or None.

    A task can move while an agent, a reviewer or the merge queue has it, when it is ready, and when it waits for a task
    of another epic. If none can, all open tasks wait for blocked, failed or cancelled ones.
    """
    own = {task.number for task in tasks}
    open = [task for task in tasks if task.state not in FINISHED]
    for task in open:
        if task.state in (State.ASSIGNED, State.IN_PROGRESS, State.REVIEW):
            return None
        if task.state is State.PENDING and (not task.open_blockers or not own.issuperset(blockers[task.number])):
            return None
    return open


def check_crew_fence(crew: Crew, fence: int) -> None:
    """Reject a driver whose crew another driver has taken over."""
    if fence != crew.fence:
        raise InvalidState(
            f"another process drives the crew '{crew.name}' now (this driver's fence is {fence}, the crew's is"
            f" {crew.fence})",
            rule="crew_taken_over",
        )


def crew_topic(crew: str) -> str:
    """Return the topic that is notified when something happens to a crew."""
    return f"crew:{crew}"
