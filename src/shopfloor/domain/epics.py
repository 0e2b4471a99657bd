"""Epics: what a team works on, consisting of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from shopfloor.errors import InvalidInput, NotFound


class EpicState(StrEnum):
    """The state of an epic."""

    PLANNING = "PLANNING"
    IN_PROGRESS = "IN_PROGRESS"
    BLOCKED = "BLOCKED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"


_OPEN = (EpicState.PLANNING, EpicState.IN_PROGRESS, EpicState.BLOCKED)
_ENDS = (EpicState.COMPLETED, EpicState.CANCELLED)

EPIC_MOVES: dict[EpicState, tuple[EpicState, ...]] = {
    **{state: (*(other for other in _OPEN if other is not state), *_ENDS) for state in _OPEN},
    **dict.fromkeys(_ENDS, ()),
}


class EpicNotFound(NotFound):
    """Epic {epic} not found"""


@dataclass(frozen=True, slots=True)
class Epic:
    """An epic."""

    id: int
    title: str
    description: str
    state: EpicState
    linear_issue_id: str | None
    linear_issue_url: str | None
    created_at: int
    updated_at: int
    completed_at: int | None

    @property
    def is_open(self) -> bool:
        """True while tasks may still be worked on."""
        return self.state in _OPEN


def check_epic_move(state: EpicState, wanted: EpicState) -> None:
    """Raise unless an epic may go from `state` to `wanted`, or stays."""
    allowed = EPIC_MOVES[state]
    if wanted is not state and wanted not in allowed:
        names = ", ".join(allowed) or f"none, {state} is final"
        raise InvalidInput(f"An epic cannot go from {state} to {wanted}; allowed: {names}", field="state")
