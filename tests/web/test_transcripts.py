"""The transcript of a run on its page: live, folded, searchable, and with agents' text escaped."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from shopfloor.domain.transcripts import EntryKind, NewEntry
from shopfloor.gateways.clock import now
from shopfloor.usecases import transcripts
from tests.web.desk_support import Desk

HOSTILE = "<img src=x onerror=alert(1)>"


def record(desk: Desk, *entries: NewEntry) -> None:
    desk.write(lambda uow: transcripts.record_entries(uow, "run:night", "s", 1, entries))


def new_call(number: int, status: str = "pending", result: str = "") -> NewEntry:
    return NewEntry(number, EntryKind.TOOL_CALL, f"call {HOSTILE}", status, f'{{"path": "{HOSTILE}"}}', result, now())


def test_a_transcript_grows_while_a_part_of_it_stays_open(populated: Desk, operator: Page) -> None:
    record(populated, NewEntry(1, EntryKind.MESSAGE, "", "", f"First **words** {HOSTILE}", "", now()), new_call(2))
    populated.open_page(operator, "/runs/night/transcript")
    entries = operator.locator(".transcript .entry")
    expect(entries).to_have_count(2)
    expect(operator.locator(".transcript strong")).to_have_text("words")
    expect(operator.locator(".transcript img")).to_have_count(0)
    operator.get_by_text("Arguments").click()
    # A new entry before it in the list, and the result of the call.
    record(populated, new_call(2, "completed", "12 passed"), NewEntry(3, EntryKind.THOUGHT, "", "", "hm", "", now()))
    expect(entries).to_have_count(3, timeout=180_000)
    expect(operator.locator("#entry-2-body")).to_have_attribute("open", "")
    expect(operator.locator("#entry-2-result")).not_to_have_attribute("open", "")
    populated.open_page(operator, "/boards/run/night")
    expect(operator.locator(".transcript .entry")).to_have_count(3)


def test_a_transcript_is_searched_and_paged(populated: Desk, operator: Page) -> None:
    words = [NewEntry(number, EntryKind.MESSAGE, "", "", f"word {number}", "", now()) for number in range(1, 151)]
    record(populated, *words)
    populated.open_page(operator, "/runs/night/transcript")
    entries = operator.locator(".transcript .entry")
    expect(entries).to_have_count(100)
    operator.get_by_role("link", name="Earlier entries").click()
    expect(entries).to_have_count(50)
    operator.get_by_label("Search the transcript").fill("word 77")
    operator.get_by_role("button", name="Search").click()
    expect(entries).to_have_count(1)
