"""The contract of the crew toolset: JSON in, JSON out, for the process that drives a crew.

As in the run toolset, the driver is the principal `runner:NAME`, the tools take the crew from the principal, and tools
that write take the driver's fence.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic_core import to_jsonable_python

from shopfloor.domain.crews import Crew
from shopfloor.domain.principals import CREW_DRIVER, Kind, Principal
from shopfloor.errors import ShopfloorError
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json, Request, Tool, Toolset
from shopfloor.usecases import crews

Fence = Annotated[int, Field(description="The fence that crew_drive returned", ge=0)]
TaskNumber = Annotated[int, Field(description="Number of the task", ge=1)]
AgentName = Annotated[str, Field(description="Name of the agent", min_length=1, max_length=64)]


def render_error(error: ShopfloorError, _: Request, __: int) -> Json:
    return {"error": error.message, "code": error.code, "hint": error.hint}


def allow(caller: Principal, tool: Tool) -> bool:
    """Allow the operator to create a crew, and a driver everything else."""
    if tool.admin:
        return caller.kind is Kind.OPERATOR
    return caller.kind is Kind.RUNNER and caller.role == CREW_DRIVER


def lock_crew(uow: UnitOfWork, fence: int) -> Crew:
    """Lock the caller's crew and return it, or reject a stale fence."""
    return crews.lock_as_driver(uow, uow.actor.name, fence)


def get_retry_hint(crew: Crew) -> str:
    """Return the hint for the mail about a failed task."""
    return f"When the crew has ended, try it again: shopfloor crew resume {crew.name} --retry-failed"


toolset = Toolset(
    "crew",
    principal_kind=None,
    allows=allow,
    render_result=lambda value, _: to_jsonable_python(value),
    render_error=render_error,
    served=False,
    log_results=False,
)
