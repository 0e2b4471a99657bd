"""The tool behind the search field of the pages."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases import find

RESULT_LIMIT = 30

Query = Annotated[str, Field(description="Words of a title, a name, or an id", min_length=1, max_length=200)]


@toolset.tool("find", read_only=True)
def find_things(uow: UnitOfWork, query: Query) -> Json:
    """Find tasks, epics, agents, runs, mail and decisions by id, name or title."""
    return {
        "things": [
            {"kind": thing.kind, "id": thing.id, "title": thing.title, "detail": thing.detail}
            for thing in find.find_things(uow, query, RESULT_LIMIT)
        ]
    }
