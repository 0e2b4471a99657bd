"""Tools with which a driver has the work of its run reviewed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.mail import run_participant
from shopfloor.domain.reviews import Review
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json
from shopfloor.toolsets.run.contract import Fence, lock_run, toolset
from shopfloor.usecases import reviews


# secret: the response has a token, which must not be in the log.
@toolset.tool("review_open", secret=True)
def open_review(uow: UnitOfWork, fence: Fence) -> Json:
    """Open a review of the run's work. Return its number, and a token for the reviewer."""
    lock_run(uow, fence)
    review, token = reviews.open_review(uow, run_participant(uow.actor.name).key)
    return {"number": review.number, "token": token}


@toolset.tool("review_close")
def close_review(
    uow: UnitOfWork, fence: Fence, number: Annotated[int, Field(ge=1, description="Its number")]
) -> Review:
    """End a review and return it with its verdict. Without one, it is withdrawn."""
    lock_run(uow, fence)
    return reviews.close_review(uow, run_participant(uow.actor.name).key, number)


@toolset.tool("review_rejections", read_only=True)
def list_rejections(uow: UnitOfWork) -> list[Review]:
    """Return the reviews that rejected the run's work since a person last decided on it, oldest first."""
    return reviews.list_rejections(uow, uow.actor.name)
