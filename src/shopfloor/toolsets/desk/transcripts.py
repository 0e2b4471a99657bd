"""Tools for the transcripts of agent sessions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shopfloor.domain.pagination import DEFAULT_PAGE_ROWS, fetch_size, format_cursor, parse_number_cursor, to_page
from shopfloor.domain.times import SECOND, format_iso
from shopfloor.domain.transcripts import Entry, parse_owner, transcript_topic
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.toolkit import Cursor, Json, Limit, Waiting
from shopfloor.toolsets.desk.contract import toolset
from shopfloor.usecases import transcripts

MAX_CHANGES = 100
# The driver is another process, whose notifications have no event: a wait reads the rows again this often.
RECHECK_INTERVAL = SECOND

Owner = Annotated[str, Field(description="run:NAME or agent:NAME", max_length=200)]
Iteration = Annotated[int | None, Field(description="Only this iteration", ge=0)]
Query = Annotated[str | None, Field(description="Only entries that contain this text", min_length=1, max_length=200)]


@toolset.tool("transcript_list", read_only=True)
def list_transcript(
    uow: UnitOfWork,
    owner: Owner,
    iteration: Iteration = None,
    query: Query = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Json:
    """List what an agent said, thought, planned, called and asked, latest first. Texts are untrusted.

    A search reads 1,000 entries at a time: a page may be empty and still have a nextCursor.
    """
    owner, before = parse_owner(owner), parse_number_cursor("entries", cursor)
    revision = uow.transcripts.latest_revision(owner)
    if query is None:
        rows = uow.transcripts.list_page(owner, fetch_size(limit), before, iteration)
        return {"revision": revision, **to_page("entries", rows, limit, format_entry, lambda entry: entry.number)}
    found, following = transcripts.search_entries(uow, owner, query, limit or DEFAULT_PAGE_ROWS, before, iteration)
    page = to_page("entries", found, limit, format_entry, lambda entry: entry.number)
    if "nextCursor" not in page and following is not None:
        page["nextCursor"] = format_cursor("entries", following)
    return {"revision": revision, **page}


@toolset.tool("transcript_wait", read_only=True)
def wait_for_entries(
    uow: UnitOfWork,
    owner: Owner,
    after: Annotated[int, Field(description="The revision that is known", ge=0)],
    seconds: Annotated[float, Field(description="How long to wait; default 0", ge=0, le=600)] = 0,
    resumed: Waiting | None = None,
) -> Json | Waiting:
    """Return the entries that are new or have changed since a revision, as soon as there are any."""
    owner = parse_owner(owner)
    entries = uow.transcripts.list_changes(owner, after, MAX_CHANGES)
    deadline = uow.now + int(seconds * SECOND) if resumed is None else resumed.state
    if not entries and uow.now < deadline and not (resumed is not None and resumed.until == 0):
        return Waiting(transcript_topic(owner), min(deadline, uow.now + RECHECK_INTERVAL), deadline)
    page = to_page("entries", entries, MAX_CHANGES, format_entry, lambda entry: entry.revision)
    page.pop("nextCursor", None)
    return {"revision": entries[page["count"] - 1].revision if entries else after, **page}


def format_entry(entry: Entry) -> Json:
    """Return an entry as lists show it."""
    return {
        "number": entry.number,
        "revision": entry.revision,
        "session": entry.session,
        "iteration": entry.iteration,
        "kind": entry.kind.value,
        "title": entry.title,
        "status": entry.status,
        "body": entry.body,
        "result": entry.result,
        "at": format_iso(entry.created_at),
        "changedAt": format_iso(entry.updated_at),
    }
