"""Boards by hand: tasks edited, epics moved, and the own list beside them."""

from __future__ import annotations

import httpx2
from playwright.sync_api import Browser, Page, expect

from tests.serving import away
from tests.web.desk_support import Desk, at_the_desk


def test_a_task_is_edited_on_its_page(filled: Desk, operator: Page) -> None:
    filled.open(operator, "/tasks/2")
    operator.get_by_text("Edit", exact=True).click()
    operator.get_by_label("Title").fill("Drain the queue")
    operator.get_by_role("textbox", name="Description").fill("**Slowly**")
    operator.get_by_label("Priority").select_option("critical")
    operator.get_by_role("button", name="Save").click()
    expect(operator.get_by_role("heading", name="Drain the queue")).to_be_visible()
    expect(operator.locator(".prose strong")).to_have_text("Slowly")
    expect(operator.locator(".facts").first).to_contain_text("critical")
    operator.get_by_text("Edit", exact=True).click()
    operator.get_by_role("textbox", name="Description").fill("")
    operator.get_by_role("button", name="Save").click()
    expect(operator.locator(".prose strong")).to_have_count(0)


def test_a_task_waits_for_others_and_a_circle_is_refused(filled: Desk, operator: Page) -> None:
    filled.ask("task_create", title="Third", epic=1)
    third = filled.ask("board_show", kind="epic", board="1")["columns"][0]["tasks"][-1]["number"]
    filled.open(operator, "/tasks/2")
    operator.get_by_text("Edit", exact=True).click()
    operator.get_by_label("Waits also for").fill(f"task-{third}")
    operator.get_by_role("button", name="Save").click()
    expect(operator.locator(".graph a")).to_have_count(3)
    operator.get_by_role("button", name="Wait no more for task-1").click()
    expect(operator.locator(".graph a")).to_have_count(2)
    filled.open(operator, f"/tasks/{third}")
    operator.get_by_text("Edit", exact=True).click()
    operator.get_by_label("Waits also for").fill("2")
    operator.get_by_role("button", name="Save").click()
    expect(operator.get_by_role("alert")).to_contain_text(f"Task {third} cannot wait for task 2")
    operator.get_by_label("Waits also for").fill("two")
    operator.get_by_role("button", name="Save").click()
    expect(operator.get_by_role("alert")).to_contain_text("must be a number, not 'two'")


def test_what_is_being_written_is_kept_and_a_change_in_between_is_refused(filled: Desk, operator: Page) -> None:
    filled.open(operator, "/tasks/2")
    operator.get_by_text("Edit", exact=True).click()
    operator.get_by_label("Title").fill("Mine")
    operator.get_by_role("heading", name="Dependencies").click()
    filled.agent("lead", "mcp__task__update", taskId="task-2", title="Theirs")
    expect(operator.locator("#live[data-held]")).to_be_visible()
    expect(operator.get_by_label("Title")).to_have_value("Mine")
    operator.get_by_role("button", name="Save").click()
    expect(operator.get_by_role("alert")).to_contain_text("task-2 has changed")
    operator.get_by_label("Title").fill("Second: Use a queue")
    operator.get_by_role("heading", name="Dependencies").click()
    expect(operator.get_by_role("heading", name="Theirs")).to_be_visible()


def test_an_epic_is_moved_and_not_completed_too_soon(filled: Desk, operator: Page) -> None:
    filled.open(operator, "/boards/epic/1")
    move = operator.get_by_role("button", name="Move epic-1", exact=True)
    operator.get_by_label("Move epic-1 to").select_option("COMPLETED")
    move.click()
    expect(operator.get_by_role("alert")).to_contain_text("epic-1 cannot be completed")
    operator.get_by_label("Move epic-1 to").select_option("BLOCKED")
    move.click()
    expect(operator.locator(".epic .pill")).to_have_text("blocked")


def test_a_filter_finds_what_is_far_down(filled: Desk, operator: Page) -> None:
    filled.execute(
        "INSERT INTO task (workspace, kind, board, title, state, priority, created_at, updated_at)"
        " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)"
        " SELECT 1, 'epic', '1', CASE i WHEN 1400 THEN 'Needle' ELSE 'Hay' END, 'PENDING', 2, i, i FROM n"
    )
    filled.open(operator, "/boards/epic/1")
    operator.get_by_label("Filter tasks").fill("needle")
    operator.get_by_role("button", name="Filter").click()
    expect(operator.locator('[data-state="PENDING"]')).to_contain_text("nothing among the 1,000 looked at")
    operator.get_by_role("link", name="Look further").click()
    expect(operator.get_by_role("link", name="Needle")).to_be_visible()


def test_the_own_list_is_a_board_for_its_owner(filled: Desk, browser: Browser) -> None:
    filled.ask("key_add_user", name="looker", desk="reader")
    away(lambda: filled.server.floor.call("todo_direct", "add_task", {"user_id": "looker", "title": "Water plants"}))
    with at_the_desk(browser) as context:
        page = filled.enter(context, "looker")
        filled.open(page, "/boards")
        page.get_by_role("link", name="looker").click()
        page.wait_for_selector('#live[data-state="live"]')
        page.locator(".ticket").drag_to(page.locator('[data-state="COMPLETED"]'))
        expect(page.locator('[data-state="COMPLETED"] .ticket')).to_contain_text("Water plants")
        page.locator(".ticket").hover()
        page.locator(".ticket").get_by_role("button").click()
        expect(page.locator('[data-state="PENDING"] .ticket')).to_contain_text("Water plants")


def test_nobody_else_sees_or_moves_a_list(filled: Desk, browser: Browser) -> None:
    for name in ("looker", "other"):
        filled.ask("key_add_user", name=name, desk="helper")
    away(lambda: filled.server.floor.call("todo_direct", "add_task", {"user_id": "looker", "title": "Secret plan"}))
    with at_the_desk(browser) as first, at_the_desk(browser) as second:
        filled.open(filled.enter(first, "looker"), "/lists/looker")
        page = filled.enter(second, "other")
        assert filled.open(page, "/lists/looker") == 404
        csrf = page.locator('meta[name="csrf"]').get_attribute("content")
        cookies = {cookie["name"]: cookie["value"] for cookie in second.cookies()}
        form = {"csrf": csrf, "number": "2", "state": "COMPLETED"}
        with httpx2.Client(base_url=filled.url, cookies=cookies, timeout=60) as client:
            assert client.post("/lists/looker/move", data=form).status_code == 404
            with client.stream("GET", "/live?page=/lists/looker") as stream:
                lines = stream.iter_lines()
                filled.server.call("looker", "add_task", title="Another secret")
                said = [next(lines) for _ in range(3)]
    assert not any("secret" in line.lower() for line in said)
    assert {task["completed"] for task in filled.server.tasks("looker")} == {False}


def test_the_operator_moves_in_the_name_of_the_owner_and_the_log_names_both(filled: Desk, operator: Page) -> None:
    filled.open(operator, "/lists/guest")
    expect(operator.get_by_text("You act here in the name of guest")).to_be_visible()
    operator.locator(".ticket").drag_to(operator.locator('[data-state="COMPLETED"]'))
    expect(operator.locator('[data-state="COMPLETED"] .ticket')).to_be_visible()
    call = filled.ask("log_search", tool="complete")["calls"][0]
    assert (call["agent"], call["by"]) == ("user:guest", "operator:operator")
