"""Epic tools."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shopfloor.domain.epics import EpicState
from shopfloor.domain.ids import parse_epic_id
from shopfloor.domain.pagination import fetch_size, parse_number_cursor, to_page
from shopfloor.domain.times import format_iso
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.factory.arguments import AgentId, Description, EpicId, Title, shorten
from shopfloor.toolsets.factory.contract import toolset
from shopfloor.toolsets.factory.shapes import format_epic
from shopfloor.usecases import epics

State = Annotated[
    Literal["PLANNING", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED"], Field(description="A state of an epic")
]
Link = Annotated[str, Field(description="Where that issue is", max_length=2000)]


@toolset.tool("mcp__epic__create")
def create_epic(
    uow: UnitOfWork,
    title: Title,
    description: Description = "",
    linear_issue_id: Annotated[str, Field(description="The issue in Linear", max_length=200)] | None = None,
    linear_issue_url: Link | None = None,
) -> Json:
    """Create an epic, in PLANNING."""
    return format_epic(epics.create_epic(uow, title, description, linear_issue_id, linear_issue_url))


@toolset.tool("mcp__epic__get", read_only=True)
def get_epic(uow: UnitOfWork, epic_id: EpicId) -> Json:
    """Get an epic."""
    return format_epic(uow.epics.get(parse_epic_id(epic_id)))


@toolset.tool("mcp__epic__list", read_only=True)
def list_epics(uow: UnitOfWork, state: State | None = None, limit: Limit = None, cursor: Cursor = None) -> Json:
    """List epics, newest first; descriptions are cut at 200 characters."""
    rows = uow.epics.list_page(
        limit=fetch_size(limit),
        before=parse_number_cursor("epics", cursor),
        state=None if state is None else EpicState(state),
    )
    return to_page("epics", rows, limit, lambda epic: shorten(format_epic(epic)), lambda epic: epic.id)


@toolset.tool("mcp__epic__assign", idempotent=True)
def assign_epic(uow: UnitOfWork, epic_id: EpicId, agent_id: AgentId) -> Json:
    """Assign an agent to an epic: it then claims this epic's tasks."""
    epic, agent = epics.assign_epic(uow, parse_epic_id(epic_id), agent_id)
    return {"epicId": f"epic-{epic.id}", "agentId": agent.name, "timestamp": format_iso(uow.now)}


@toolset.tool("mcp__epic__update_status", critical=True, idempotent=True)
def update_status(uow: UnitOfWork, epic_id: EpicId, state: State) -> Json:
    """Move an epic. Completing it needs every task COMPLETED, FAILED or CANCELLED; COMPLETED and CANCELLED are final."""
    return format_epic(epics.move_epic(uow, parse_epic_id(epic_id), EpicState(state)))
