"""Tools with which a driver records what its agent says and does."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from shopfloor.domain.mail import run_participant
from shopfloor.domain.transcripts import EntryKind, NewEntry
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolsets.run.contract import Fence, lock_run, toolset
from shopfloor.usecases import transcripts


class GivenEntry(BaseModel):
    """An entry of a transcript."""

    model_config = ConfigDict(extra="forbid")

    number: Annotated[
        int, Field(description="Its position in the transcript; that of an earlier one replaces it", ge=1)
    ]
    kind: EntryKind
    title: str
    status: str
    body: str
    result: str
    created_at: int


@toolset.tool("transcript_next", read_only=True)
def find_next_number(uow: UnitOfWork) -> int:
    """Return the number of the next entry of the run's transcript."""
    return uow.transcripts.next_number(run_participant(uow.actor.name).key)


@toolset.tool("transcript_record", stores_input=True)
def record_entries(
    uow: UnitOfWork,
    fence: Fence,
    session: Annotated[str, Field(description="The agent's id of its session")],
    iteration: Annotated[int, Field(description="The iteration's number", ge=0)],
    entries: Annotated[list[GivenEntry], Field(description="What is new or has changed", max_length=500)],
) -> None:
    """Record entries of the run's transcript."""
    lock_run(uow, fence)
    new = [NewEntry(**entry.model_dump()) for entry in entries]
    transcripts.record_entries(uow, run_participant(uow.actor.name).key, session, iteration, new)
