"""The contract of the run toolset: JSON in, JSON out, for the process that drives a run.

A driver is the principal `runner:NAME`. It is proven by the process itself, never by a token. The tools take the run
from the principal, so that a driver cannot reach another run. Tools that write take the driver's fence.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic_core import to_jsonable_python

from shopfloor.domain.principals import CREW_DRIVER, Kind, Principal
from shopfloor.domain.runs import Run
from shopfloor.errors import ShopfloorError
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Json, Request, Tool, Toolset
from shopfloor.usecases import runs

Fence = Annotated[int, Field(description="The fence that run_drive returned", ge=0)]


def render_error(error: ShopfloorError, _: Request, __: int) -> Json:
    return {"error": error.message, "code": error.code, "hint": error.hint}


def allow(caller: Principal, tool: Tool) -> bool:
    """Allow the operator to create a run, and a driver everything else."""
    return caller.kind is (Kind.OPERATOR if tool.admin else Kind.RUNNER) and caller.role != CREW_DRIVER


# Every tool that writes starts with this. Otherwise a driver that was suspended and replaced could continue to write.
def lock_run(uow: UnitOfWork, fence: int) -> Run:
    """Lock the caller's run and return it, or reject a stale fence."""
    return runs.lock_as_driver(uow, uow.actor.name, fence)


toolset = Toolset(
    "run",
    principal_kind=None,
    allows=allow,
    render_result=lambda value, _: to_jsonable_python(value),
    render_error=render_error,
    served=False,
    log_results=False,
)
