"""Reviews: a second agent reads the work and approves it or requests changes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ReviewState(StrEnum):
    """The state of a review. A review that ended without a verdict is withdrawn."""

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Review:
    """A review of the work of a run or an agent (`owner`: run:NAME, agent:NAME), with the reviewer's comment."""

    number: int
    owner: str
    state: ReviewState
    comment: str
    created_at: int
    decided_at: int | None
