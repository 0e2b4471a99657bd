"""Tools of the decision log."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.times import iso
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Json
from shopfloor.toolsets.factory.manners import toolset
from shopfloor.usecases import decisions

LOG_DECISION = "mcp__system__log_decision"

Title = Annotated[
    str, Field(description="What was decided, in one line (1-500 characters)", min_length=1, max_length=500)
]
Body = Annotated[str, Field(description="Why, and what follows from it (at most 65536 characters)", max_length=65536)]


@toolset.tool(LOG_DECISION)
def log_decision(work: Work, title: Title, body: Body) -> Json:
    """Write a decision of yours into the log, so that the team can follow it later."""
    number = decisions.log(work, toolset.name, LOG_DECISION, title, body)
    return {"logId": f"log-{number}", "timestamp": iso(work.now)}
