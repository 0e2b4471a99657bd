"""The crews."""

from __future__ import annotations

from shopfloor.toolkit import Json
from shopfloor.web.views.inbox import ANSWERS
from shopfloor.web.views.view import Given
from shopfloor.web.visitor import Visitor


async def load_crews(visitor: Visitor, given: Given) -> Json:
    """Load the crews, latest first."""
    return {"crews": await visitor.ask("crew_list", cursor=given.get("cursor"))}


async def load_crew(visitor: Visitor, given: Given) -> Json:
    """Load one crew with its workers, tasks and merge queue, and compare its branch with the project's."""
    crew = await visitor.ask("crew_show", crew=given["crew"])
    merges = {merge["task"]: merge for merge in crew["merges"]}
    comparison = await visitor.ask("crew_compare", crew=given["crew"])
    return {"crew": crew, "merges": merges, "comparison": comparison, "answers": ANSWERS}
