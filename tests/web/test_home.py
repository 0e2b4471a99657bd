"""Home: what needs a person comes first, with its buttons; then progress, agents and what happened."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect

from shopfloor.web.views.home import MAX_NEEDS, MAX_RUNS, select_runs
from tests.web.desk_support import Desk, open_desk_context


def test_what_needs_a_person_is_answered_on_the_page(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/home")
    needs = operator.locator(".need")
    expect(needs).to_have_count(3)
    operator.get_by_role("button", name="Deny").click()
    expect(needs).to_have_count(2)
    assert populated.ask("inbox_request", request=1)["answer"] == "deny"
    operator.get_by_role("button", name="Done: Use a queue").click()
    expect(needs).to_have_count(1)
    operator.get_by_role("button", name="Undo").click()
    expect(needs).to_have_count(2)


def test_a_question_comes_before_newer_mail_and_the_rest_is_counted(populated: Desk, operator: Page) -> None:
    populated.call_as(
        "builder",
        "mcp__mail__ask",
        subject="Which provider first?",
        body="x",
        options=["cheap", "fast"],
        timeoutSeconds=0,
    )
    for number in range(MAX_NEEDS):
        populated.call_as("builder", "mcp__mail__send", toHuman=True, subject=f"News {number}", body="x")
    populated.open_page(operator, "/home")
    expect(operator.locator(".need", has_text="Which provider first?")).to_have_count(1)
    expect(operator.locator(".need")).to_have_count(MAX_NEEDS)
    # Three that were there before, the question and the news.
    expect(operator.get_by_role("link", name=f"{3 + 1 + MAX_NEEDS - MAX_NEEDS} more in the inbox")).to_be_visible()


def test_agents_show_their_task_and_the_last_thing_they_said(populated: Desk, operator: Page) -> None:
    populated.call_as("builder", "mcp__task__update_status", taskId="task-1", state="IN_PROGRESS")
    populated.call_as("builder", "mcp__mail__send", toHuman=True, subject="Half way there", body="x")
    populated.open_page(operator, "/home")
    row = operator.locator(".agent-row", has_text="builder")
    expect(row.get_by_role("link", name="Use a queue")).to_have_attribute("href", "/tasks/1")
    expect(row).to_contain_text(re.compile(r"for \d+ s"))
    expect(row).to_contain_text("“Half way there”")
    expect(operator.locator(".epic-row", has=operator.locator('[href="/boards/epic/1"]'))).to_contain_text("0/2")


def test_activity_is_written_in_sentences(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/home")
    feed = operator.locator(".feed")
    expect(feed).to_contain_text("lead created Second: Use a queue")
    expect(feed).to_contain_text("builder decided: Use a queue")
    expect(feed).to_contain_text("night asked for permission:")
    populated.call_as("builder", "mcp__task__update_status", taskId="task-1", state="IN_PROGRESS")
    expect(feed).to_contain_text("builder started Use a queue")
    for state in ("REVIEW", "COMPLETED"):
        populated.call_as("lead", "mcp__task__update_status", taskId="task-1", state=state)
    expect(feed).to_contain_text("builder finished Use a queue accepted by lead")
    expect(feed).not_to_contain_text("todo")


def test_a_new_workspace_shows_three_steps_that_can_be_copied(desk: Desk, browser: Browser) -> None:
    with open_desk_context(browser, permissions=["clipboard-read", "clipboard-write"]) as context:
        page = desk.sign_in(context)
        desk.open_page(page, "/home")
        expect(page.locator(".steps li")).to_have_count(3)
        # A heading above nothing is only in the way of the steps.
        expect(page.get_by_role("heading", name="Activity")).to_have_count(0)
        page.locator(".steps [data-copy]").first.click()
        expect(page.get_by_role("status")).to_contain_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == "shopfloor connect claude"
        # The first task of the quickstart belongs to no epic.
        desk.ask("task_create", title="Fix the login page")
        tasks = page.get_by_role("region", name="Tasks")
        expect(tasks.get_by_role("link", name="Fix the login page")).to_have_attribute("href", "/tasks/1")
        steps = page.locator(".steps li")
        expect(steps.filter(has_text="Done:")).to_have_text([re.compile("Give it a job")])
        desk.ask("agent_create", name="builder", type="WORKER", issueToken=False)
        expect(steps.filter(has_text="Done:")).to_have_count(2)
        expect(steps.last).to_contain_text("start work")
        # Nothing has been called yet, and a chart of nothing is only a line.
        expect(page.get_by_text("Calls per minute")).to_have_count(0)
        desk.call_as("builder", "mcp__task__claim")
        expect(page.locator(".steps")).to_have_count(0)
        desk.ask("epic_create", title="First")
        expect(tasks).to_have_count(0)
        expect(page.locator(".steps")).to_have_count(0)


def test_the_frame_does_not_move_between_pages(populated: Desk, operator: Page) -> None:
    places = set()
    for path in ("/home", "/inbox", "/tasks", "/agents", "/activity", "/settings/access", "/todo", "/nonsense"):
        operator.goto(populated.url + path)
        links = operator.locator(".sidebar nav a")
        boxes = links.evaluate_all("all => all.map((link) => [link.offsetLeft, link.offsetTop, link.offsetWidth])")
        places.add((str(boxes), operator.locator(".page-header").evaluate("header => header.offsetHeight")))
        expect(operator.locator("[data-badge]")).to_have_text("3")
    assert len(places) == 1


def test_runs_that_are_not_done_come_first_and_the_list_is_short() -> None:
    runs = [{"run": f"shop.task-{number}", "status": "completed"} for number in range(9)]
    selected = select_runs([*runs, {"run": "night", "status": "running"}])
    assert [run["run"] for run in selected] == ["night", *(run["run"] for run in runs[: MAX_RUNS - 1])]


def test_tasks_that_were_handed_in_wait_for_a_review(populated: Desk, operator: Page) -> None:
    for agent in populated.ask("agent_list", active=True)["agents"]:
        if agent["type"] == "SUPERVISOR" and agent["id"] != "local":
            populated.ask("agent_retire", name=agent["id"])
    number = populated.ask("task_create", title="Paint the wall", assignee="tester")["number"]
    for state in ("IN_PROGRESS", "REVIEW"):
        populated.call_as("tester", "mcp__task__update_status", taskId=f"task-{number}", state=state)
    populated.open_page(operator, "/home")
    reviews = operator.get_by_role("region", name="To review")
    expect(reviews).to_contain_text("handed in by tester")
    reviews.get_by_role("link", name="Paint the wall").click()
    operator.get_by_role("button", name="Approve").click()
    populated.open_page(operator, "/home")
    expect(operator.get_by_role("region", name="To review")).to_have_count(0)
