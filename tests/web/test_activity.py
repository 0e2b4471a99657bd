"""Activity: decisions apart from calls, one search field, forgiving times, and errors that keep the filters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from shopfloor.web.views.activity import fold_polling, format_query, parse_query
from tests.web.desk_support import Desk


def test_decisions_have_title_reason_author_and_link(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/activity")
    decision = operator.locator(".decision-item")
    expect(decision).to_have_count(1)
    expect(decision).to_contain_text("builder")
    populated.call_as("tester", "mcp__system__log_decision", title="Take the stack", body="It is **faster**")
    expect(operator.get_by_role("link", name="Take the stack")).to_be_visible()
    expect(operator.locator(".decision-why strong")).to_have_text("faster")
    operator.get_by_role("searchbox").fill("agent:tester since:1h")
    operator.keyboard.press("Enter")
    expect(operator.locator(".decision-item")).to_have_count(1)


def test_calls_are_filtered_exported_and_opened(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/activity/calls")
    operator.get_by_role("searchbox").fill("agent:builder tool:list_agents is:error since:yesterday")
    operator.get_by_role("button", name="Filter").click()
    expect(operator.locator(".call-row")).to_have_count(1)
    with operator.expect_download() as download:
        operator.get_by_role("link", name="Export as JSON lines").click()
    rows = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    assert [(row["agent"], row["outcome"]) for row in rows] == [("agent:builder", "PERMISSION_DENIED")]
    operator.locator("a[data-open]").click()
    operator.wait_for_url(f"{populated.url}/activity/ref-*")
    expect(operator.locator("main")).to_contain_text("mcp__supervisor__list_agents")


def test_a_call_is_shown_with_its_outcome_and_text_on_a_narrow_screen(populated: Desk, operator: Page) -> None:
    """Fault F27: at 390 px, outcome and text of a call were scrolled out of sight."""
    operator.set_viewport_size({"width": 390, "height": 844})
    populated.open_page(operator, "/activity/calls?q=is:error")
    row = operator.locator(".call-row")
    for text in ("builder", "list agents", "permission denied", "not allowed"):
        place = row.get_by_text(text).first.bounding_box()
        assert place is not None
        assert 0 <= place["x"] < 390, (text, place)


def test_a_part_of_a_tools_name_finds_its_calls(populated: Desk) -> None:
    tools = {call["tool"] for call in populated.ask("log_search", tool="epic")["calls"]}
    assert tools == {"mcp__epic__create"}


def test_a_time_that_is_not_understood_keeps_the_filters(populated: Desk, operator: Page) -> None:
    assert populated.open_page(operator, "/activity/calls?q=agent:builder+since:sometime") == 200
    expect(operator.get_by_role("alert")).to_contain_text("must be a time such as 1h, yesterday")
    expect(operator.get_by_role("searchbox")).to_have_value("agent:builder since:sometime")


def test_repeated_polling_is_one_row(populated: Desk, operator: Page) -> None:
    for _ in range(4):
        populated.call_as("tester", "mcp__agent__get_status")
    populated.open_page(operator, "/activity/calls?q=agent:tester")
    expect(operator.locator(".call-row")).to_have_count(1)
    expect(operator.locator(".call-row")).to_contain_text("×4")
    operator.get_by_role("link", name="Show every call").click()
    expect(operator.locator(".call-row")).to_have_count(4)


def test_an_error_of_a_polling_tool_is_not_folded() -> None:
    call = {"agent": "agent:a", "tool": "mcp__mail__wait", "outcome": "ok", "reference": "ref-1", "summary": ""}
    rows = fold_polling([call, call, {**call, "outcome": "TRANSIENT_ERROR"}, {**call, "agent": "agent:b"}])
    assert [(row["agent"], row["outcome"], row.get("polls")) for row in rows] == [
        ("agent:a", "ok", 2),
        ("agent:a", "TRANSIENT_ERROR", None),
        ("agent:b", "ok", 1),
    ]


def test_a_claim_that_got_a_task_is_not_folded_with_those_that_did_not() -> None:
    call = {"agent": "agent:a", "tool": "mcp__task__claim", "outcome": "ok", "reference": "ref-1", "summary": "None"}
    rows = fold_polling([call, {**call, "summary": "task-2"}, call, {**call, "summary": "task-1"}])
    assert [(row["summary"], row["polls"]) for row in rows] == [("None", 2), ("task-2", 1), ("task-1", 1)]


def test_a_decision_and_the_call_that_logged_it_are_one_row() -> None:
    call = {"agent": "agent:a", "tool": "mcp__system__log_decision", "outcome": "ok", "reference": "ref-1"}
    decision = {**call, "outcome": "decision"}
    other = {**call, "reference": "ref-2"}
    assert fold_polling([call, decision, other]) == [decision, other]


@pytest.mark.parametrize(
    ("query", "filters"),
    [
        ("", {}),
        ("broken build", {"text": "broken build"}),
        ("agent:user:anna is:error", {"agent": "user:anna", "outcome": "error"}),
        ('tool:claim since:"2 days ago" left', {"tool": "claim", "since": "2 days ago", "text": "left"}),
        ("is:ui task:task-15", {"desk": "1", "task": "task-15"}),
        ("https://example.org", {"text": "https://example.org"}),
    ],
)
def test_a_search_field_is_read_and_written_back(query: str, filters: dict[str, str]) -> None:
    assert parse_query(query) == filters
    assert parse_query(format_query(filters)) == filters
