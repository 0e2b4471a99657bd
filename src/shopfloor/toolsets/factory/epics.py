"""Epic tools."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shopfloor.domain.epics import EpicState
from shopfloor.domain.ids import epic_number
from shopfloor.domain.pages import listed, read_number_cursor, wanted
from shopfloor.domain.times import iso
from shopfloor.repositories.work import Work
from shopfloor.toolkit import Cursor, Json, Limit
from shopfloor.toolsets.factory.answers import epic_answer
from shopfloor.toolsets.factory.arguments import AgentId, Description, EpicId, Title, shortened
from shopfloor.toolsets.factory.manners import toolset
from shopfloor.usecases import epics

State = Annotated[
    Literal["PLANNING", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED"], Field(description="A state of an epic")
]
Link = Annotated[str, Field(description="Where that issue is", max_length=2000)]


@toolset.tool("mcp__epic__create")
def create(
    work: Work,
    title: Title,
    description: Description = "",
    linear_issue_id: Annotated[str, Field(description="The issue in Linear", max_length=200)] | None = None,
    linear_issue_url: Link | None = None,
) -> Json:
    """Create an epic, in PLANNING."""
    return epic_answer(epics.create(work, title, description, linear_issue_id, linear_issue_url))


@toolset.tool("mcp__epic__get", read_only=True)
def get(work: Work, epic_id: EpicId) -> Json:
    """Get an epic."""
    return epic_answer(work.epics.get(epic_number(epic_id)))


@toolset.tool("mcp__epic__list", read_only=True)
def list_epics(work: Work, state: State | None = None, limit: Limit = None, cursor: Cursor = None) -> Json:
    """List epics, newest first; descriptions are cut at 200 characters."""
    rows = work.epics.page(
        limit=wanted(limit),
        before=read_number_cursor("epics", cursor),
        state=None if state is None else EpicState(state),
    )
    return listed("epics", rows, limit, lambda epic: shortened(epic_answer(epic)), lambda epic: epic.id)


@toolset.tool("mcp__epic__assign", idempotent=True)
def assign(work: Work, epic_id: EpicId, agent_id: AgentId) -> Json:
    """Let an agent work for an epic: it claims this epic's tasks from now on."""
    epic, agent = epics.assign(work, epic_number(epic_id), agent_id)
    return {"epicId": f"epic-{epic.id}", "agentId": agent.name, "timestamp": iso(work.now)}


@toolset.tool("mcp__epic__update_status", idempotent=True)
def update_status(work: Work, epic_id: EpicId, state: State) -> Json:
    """Move an epic. Completing it needs every task COMPLETED, FAILED or CANCELLED; COMPLETED and CANCELLED are final."""
    return epic_answer(epics.move(work, epic_number(epic_id), EpicState(state)))
