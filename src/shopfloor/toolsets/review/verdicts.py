"""The tool with which a reviewer gives its verdict."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolsets.review.contract import toolset
from shopfloor.usecases import reviews


@toolset.tool("review-verdict")
def give_verdict(
    uow: UnitOfWork,
    approve: Annotated[bool, Field(description="true if the work meets its specification, false to request changes")],
    comment: Annotated[
        str, Field(description="What to change and why; needed to request changes (up to 20000)", max_length=20_000)
    ] = "",
) -> str:
    """Give your verdict on the work, once. The agent that did the work reads your comment."""
    review = reviews.decide_review(uow, uow.actor.name, approve=approve, comment=comment)
    return f"Recorded: {review.state.value}. End your turn now."
