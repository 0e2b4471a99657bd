"""The command palette and the search page: everything with a page is found by its name, by keyboard alone."""

from __future__ import annotations

import httpx2
from playwright.sync_api import Browser, Page, expect

from tests.web.desk_support import Desk, open_desk_context


def test_the_palette_finds_a_task_and_goes_there(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/home")
    operator.keyboard.press("Control+k")
    palette = operator.get_by_role("dialog", name="Search")
    expect(palette.get_by_role("option")).to_have_count(10)
    operator.keyboard.type("second queue")
    option = palette.get_by_role("option", name="Second: Use a queue")
    expect(option).to_be_visible()
    expect(palette.get_by_role("option").last).to_contain_text("Search everything for “second queue”")
    operator.keyboard.press("Enter")
    operator.wait_for_url(f"{populated.url}/tasks/2")


def test_the_palette_goes_to_a_page_and_closes_with_escape(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/home")
    operator.get_by_role("link", name="Search").click()
    operator.keyboard.type("knowl")
    operator.keyboard.press("Escape")
    expect(operator.get_by_role("dialog")).to_have_count(0)
    operator.keyboard.press("Control+k")
    operator.keyboard.type("knowl")
    expect(operator.get_by_role("option").first).to_contain_text("Knowledge")
    operator.keyboard.press("Enter")
    operator.wait_for_url(f"{populated.url}/knowledge**")


def test_everything_with_a_page_is_found_by_name_or_id(populated: Desk) -> None:
    def kinds(query: str) -> list[tuple[str, str]]:
        return [(thing["kind"], thing["id"]) for thing in populated.ask("find", query=query)["things"]]

    assert {kind for kind, _ in kinds("use a queue")} == {"task", "epic", "mail", "decision"}
    assert kinds("build")[0] == ("agent", "builder")
    assert kinds("nigh")[0] == ("run", "night")
    assert kinds("task-2")[0] == ("task", "task-2")
    assert ("task", "task-2") in kinds("2")
    assert kinds("EPIC-1") == [("epic", "epic-1")]
    assert kinds("zzz") == []


def test_a_decision_of_several_agents_is_found_once(populated: Desk) -> None:
    for agent in ("builder", "tester"):
        populated.call_as(agent, "mcp__system__log_decision", title="Keep prices in cents", body="x")
    populated.call_as("builder", "mcp__system__log_decision", title="Keep prices in euros", body="x")
    found = populated.ask("find", query="keep prices")["things"]
    assert [each["title"] for each in found if each["kind"] == "decision"] == [
        "Keep prices in euros",
        "Keep prices in cents",
    ]


def test_search_works_without_scripts_and_only_for_those_with_access(populated: Desk, browser: Browser) -> None:
    with open_desk_context(browser, java_script_enabled=False) as context:
        page = populated.sign_in(context)
        page.goto(f"{populated.url}/home")
        page.locator("a.search-button").click()
        page.get_by_role("searchbox").fill("night")
        page.get_by_role("button", name="Search").click()
        expect(page.locator(".search-results").get_by_role("link", name="night", exact=True)).to_be_visible()
    assert httpx2.get(f"{populated.url}/find?q=night", headers={"Accept": "application/json"}).status_code == 401
