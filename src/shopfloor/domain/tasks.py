"""Tasks: one number space and one set of states; each kind of board has its own moves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from shopfloor.errors import InvalidInput, NotFound


class BoardKind(StrEnum):
    """The kinds of boards: a user's list, an epic, a run."""

    LIST = "list"
    EPIC = "epic"
    LOOP = "loop"


class State(StrEnum):
    """The state of a task; each contract formats it."""

    PENDING = "PENDING"
    ASSIGNED = "ASSIGNED"
    IN_PROGRESS = "IN_PROGRESS"
    REVIEW = "REVIEW"
    BLOCKED = "BLOCKED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


FINISHED = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})

_LOOP_STATES = (State.PENDING, State.IN_PROGRESS, State.COMPLETED, State.BLOCKED, State.CANCELLED)

MOVES: dict[BoardKind, dict[State, tuple[State, ...]]] = {
    BoardKind.LIST: {
        State.PENDING: (State.COMPLETED,),
        State.COMPLETED: (State.PENDING,),
    },
    BoardKind.EPIC: {
        State.PENDING: (State.ASSIGNED, State.IN_PROGRESS, State.CANCELLED),
        State.ASSIGNED: (State.IN_PROGRESS, State.PENDING, State.CANCELLED),
        State.IN_PROGRESS: (State.REVIEW, State.BLOCKED, State.FAILED, State.CANCELLED),
        State.REVIEW: (State.COMPLETED, State.IN_PROGRESS, State.BLOCKED, State.CANCELLED),
        State.BLOCKED: (State.IN_PROGRESS, State.FAILED, State.CANCELLED),
        State.FAILED: (State.IN_PROGRESS, State.CANCELLED),
        State.CANCELLED: (),
        State.COMPLETED: (),
    },
    BoardKind.LOOP: {
        state: tuple(other for other in _LOOP_STATES if other is not state)
        if state not in (State.COMPLETED, State.CANCELLED)
        else ()
        for state in _LOOP_STATES
    },
}

# 0 critical … 4 backlog.
PRIORITIES = range(5)

DEFAULT_PRIORITY = 2


class TaskNotFound(NotFound):
    """Task {task} not found"""


class IllegalMove(InvalidInput):
    """A task cannot go from {state} to {wanted}; allowed: {allowed}"""


@dataclass(frozen=True, slots=True)
class Task:
    """A task on any board."""

    number: int
    kind: str
    board: str
    title: str
    description: str | None
    state: State
    priority: int
    open_blockers: int
    assignee: str | None
    attempts: int
    fence: int
    version: int
    worktree_path: str | None
    branch_name: str | None
    pr_url: str | None
    acceptance: str | None
    due_at: int | None
    due_zone: str | None
    created_at: int
    updated_at: int
    completed_at: int | None
    deleted_at: int | None
    # When work on it first started, and when its current holder got it.
    started_at: int | None = None
    held_at: int | None = None
    comments: int = 0

    @property
    def completed(self) -> bool:
        return self.state is State.COMPLETED

    @property
    def is_blocking(self) -> bool:
        """Whether the tasks that depend on it wait for it."""
        return not self.completed and self.deleted_at is None

    @property
    def epic(self) -> int | None:
        """The number of its epic, or None."""
        return int(self.board) if self.kind == BoardKind.EPIC and self.board else None


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a task."""

    id: int
    author: str
    body: str
    created_at: int


def check_move(kind: BoardKind, state: State, wanted: State) -> None:
    """Raise IllegalMove unless the board allows the move, or the task stays."""
    allowed = MOVES[kind].get(state, ())
    if wanted is not state and wanted not in allowed:
        names = ", ".join(allowed) or f"none, {state} is final"
        raise IllegalMove(state=state.value, wanted=wanted.value, allowed=names)
