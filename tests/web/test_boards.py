"""Tasks by hand: boards, lists, graphs, the page of a task, and users' own lists."""

from __future__ import annotations

import re

import httpx2
from playwright.sync_api import Browser, Page, Route, expect

from shopfloor.web import saved_filters
from shopfloor.web.views.tasks import group_tasks
from tests.serving import run_in_thread
from tests.web.desk_support import Desk, open_desk_context


def test_a_task_is_edited_on_its_page(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/tasks/2")
    operator.get_by_text("Add a description").click()
    operator.get_by_label("Title").fill("Drain the queue")
    operator.get_by_role("textbox", name="Description").fill("**Slowly**, see task-1 and `src/queue.py`")
    operator.get_by_role("button", name="Save").click()
    expect(operator.get_by_role("heading", name="Drain the queue")).to_be_visible()
    expect(operator.locator(".task-main > .prose strong")).to_have_text("Slowly")
    expect(operator.get_by_role("link", name="task-1", exact=True).first).to_have_attribute("href", "/tasks/1")
    path = operator.get_by_role("link", name="src/queue.py").first
    expect(path).to_have_attribute("href", "/knowledge?q=src/queue.py")
    operator.locator(".properties [name=priority]").select_option("critical")
    expect(operator.locator(".properties .priority.p0")).to_be_visible()
    operator.get_by_text("Edit", exact=True).click()
    operator.get_by_role("textbox", name="Description").fill("")
    operator.get_by_role("button", name="Save").click()
    expect(operator.locator(".task-main > .prose")).to_have_count(0)
    assert populated.ask("task_show", number=2)["priority"] == 0


def test_dependencies_are_added_and_removed_and_a_cycle_is_rejected(populated: Desk, operator: Page) -> None:
    third = populated.ask("task_create", title="Third", epic=1)["number"]
    populated.open_page(operator, "/tasks/2")
    field = operator.get_by_label("Add blockers").first
    field.fill(f"task-{third}")
    field.press("Enter")
    expect(operator.locator(".graph a")).to_have_count(3)
    operator.get_by_role("button", name="Remove the dependency on task-1", exact=True).click()
    expect(operator.locator(".graph a")).to_have_count(2)
    populated.open_page(operator, f"/tasks/{third}")
    field.fill("2")
    field.press("Enter")
    expect(operator.get_by_role("alert")).to_contain_text(f"Task {third} cannot depend on task 2")
    field.fill("two")
    field.press("Enter")
    expect(operator.get_by_role("alert")).to_contain_text("must be a number, not 'two'")


def test_an_edited_form_is_kept_and_a_conflicting_change_is_rejected(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/tasks/2")
    operator.get_by_text("Add a description").click()
    operator.get_by_label("Title").fill("Mine")
    operator.get_by_role("heading", name="Dependencies").click()
    populated.call_as("lead", "mcp__task__update", taskId="task-2", title="Theirs")
    expect(operator.locator("#live[data-held]")).to_be_visible()
    expect(operator.get_by_label("Title")).to_have_value("Mine")
    operator.get_by_role("button", name="Save").click()
    expect(operator.get_by_role("alert")).to_contain_text("task-2 has changed")
    operator.get_by_label("Title").fill("Second: Use a queue")
    operator.get_by_role("heading", name="Dependencies").click()
    expect(operator.get_by_role("heading", name="Theirs")).to_be_visible()


def test_an_epic_is_moved_but_completion_is_offered_only_when_no_task_is_open(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/boards/epic/1")
    operator.locator(".epic-summary .menu summary").click()
    expect(operator.locator(".epic-summary .menu button")).to_have_text(["In progress", "Blocked", "Cancelled"])
    operator.get_by_role("button", name="Move epic-1 to blocked").click()
    expect(operator.locator(".epic-summary .state")).to_contain_text("Blocked")
    expect(operator.get_by_role("button", name="Complete epic-1")).to_have_count(0)
    populated.ask("tasks_change", numbers=[1, 2], state="CANCELLED")
    populated.ask("task_complete", number=populated.ask("task_create", title="Last", epic=1)["number"])
    operator.once("dialog", lambda dialog: dialog.accept())
    operator.get_by_role("button", name="Complete epic-1").click()
    expect(operator.locator(".epic-summary .state")).to_contain_text("Completed")


def test_a_filter_narrows_as_one_types_and_finds_a_task_beyond_the_first_thousand(
    populated: Desk, operator: Page
) -> None:
    populated.execute(
        "INSERT INTO task (workspace, kind, board, title, state, priority, created_at, updated_at)"
        " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)"
        " SELECT 1, 'epic', '1', CASE i WHEN 1400 THEN 'Needle' ELSE 'Hay' END, 'PENDING', 2, i, i FROM n"
    )
    populated.open_page(operator, "/boards/epic/1")
    field = operator.get_by_label("Filter tasks")
    field.fill("second queue")
    expect(operator.locator(".task-card:visible")).to_have_count(1)
    expect(operator).to_have_url(f"{populated.url}/boards/epic/1?text=second+queue")
    views = operator.get_by_role("navigation", name="Views")
    expect(views.get_by_role("link", name="List")).to_have_attribute("href", re.compile("text=second"))
    # A live update keeps the filter.
    populated.ask("task_create", title="Other", epic=1)
    populated.ask("task_edit", number=2, title="Second: Use a queue, now")
    expect(operator.get_by_role("link", name="Use a queue, now")).to_be_visible()
    expect(operator.locator(".task-card:visible")).to_have_count(1)
    field.fill("needle")
    field.press("Enter")
    expect(operator.locator('.board-column[data-state="PENDING"]')).to_contain_text("None among the 1,000 searched")
    operator.get_by_role("link", name="Search further").click()
    expect(operator.get_by_role("link", name="Needle")).to_be_visible()


def test_filter_is_saved_in_the_browser_and_is_a_link_on_every_list_of_tasks(populated: Desk, operator: Page) -> None:
    populated.ask("task_create", title="Receipts by mail", epic=1)
    populated.open_page(operator, "/tasks?view=all")
    field = operator.get_by_label("Filter tasks")
    save = operator.get_by_role("button", name="Save filter")
    expect(save).to_be_hidden()
    field.fill("  Mail   receipts")
    expect(operator.locator(".task-group:visible")).to_have_count(1)
    save.click()
    saved = operator.get_by_role("link", name="mail receipts")
    expect(saved).to_have_attribute("aria-current", "true")
    expect(save).to_be_hidden()
    field.fill("nothing like this")
    expect(operator.get_by_text("No task on this page matches")).to_be_visible()
    expect(save).to_be_visible()
    expect(saved).not_to_have_attribute("aria-current", "true")
    populated.open_page(operator, "/boards/epic/1?view=list")
    saved.click()
    expect(operator).to_have_url(f"{populated.url}/boards/epic/1?view=list&text=mail+receipts")
    expect(operator.locator(".task-row:visible")).to_have_count(1)
    operator.get_by_role("button", name="Remove the filter mail receipts").click()
    expect(saved).to_have_count(0)
    expect(save).to_be_visible()


def test_filter_that_is_typed_before_the_script_runs_can_be_saved(populated: Desk, operator: Page) -> None:
    scripts: list[Route] = []

    def hold_back(route: Route) -> None:
        scripts.append(route)

    operator.route("**/tasks.js*", hold_back)
    with operator.expect_request("**/tasks.js*"):
        operator.goto(f"{populated.url}/tasks?view=all", wait_until="commit")
    operator.get_by_label("Filter tasks").fill("nothing like this")
    expect(operator.get_by_role("button", name="Save filter")).to_be_hidden()
    scripts[0].continue_()
    expect(operator.get_by_role("button", name="Save filter")).to_be_visible()
    expect(operator).to_have_url(f"{populated.url}/tasks?view=all&text=nothing+like+this")


def test_saved_filters_work_without_scripts(populated: Desk, browser: Browser) -> None:
    populated.ask("task_create", title="Receipts by mail", epic=1)
    with open_desk_context(browser, java_script_enabled=False) as context:
        page = context.new_page()
        populated.watch.attach(page)
        page.goto(populated.create_link())
        page.goto(f"{populated.url}/tasks?view=all&text=receipts")
        page.get_by_role("button", name="Save filter").click()
        page.goto(f"{populated.url}/tasks?view=all")
        page.get_by_role("link", name="receipts", exact=True).click()
        expect(page.locator(".task-row")).to_have_count(1)


def test_a_refused_change_says_what_to_do_on_a_line_of_its_own(populated: Desk, operator: Page) -> None:
    """Fault F31: message and hint were one sentence without a stop."""
    populated.open_page(operator, "/boards/epic/1")
    # The page has not seen yet that the task was deleted.
    card = operator.locator(".task-card", has_text="task-2")
    card.locator('[data-pick="priority"]').click()
    operator.route(
        "**/act/task_edit",
        lambda route: route.fulfill(status=409, json={"error": "task-2 is unassigned", "hint": "Assign it first"}),
    )
    operator.get_by_role("option", name="Critical").click()
    expect(operator.get_by_role("alert").locator("p")).to_have_text(["task-2 is unassigned", "Assign it first"])


def test_saved_filters_are_few_short_and_different() -> None:
    texts = saved_filters.change_filters(["a", "b"], save="  A ")
    assert texts == ["b", "a"]
    assert saved_filters.change_filters(texts, remove="b") == ["a"]
    many = [str(number) for number in range(saved_filters.MAX_FILTERS)]
    assert saved_filters.change_filters(many, save="new") == [*many[1:], "new"]
    hostile = ["a|b", "ä; Path=/x", "<b>\u202e"]
    assert saved_filters.parse_filters(saved_filters.format_filters(hostile)) == [each.lower() for each in hostile]
    assert saved_filters.parse_filters("%zz|" + "x" * 999 + "||") == ["%zz", "x" * saved_filters.MAX_FILTER_CHARACTERS]
    large = [str(number) + "\U0001f600" * 50 for number in range(saved_filters.MAX_FILTERS)]
    assert saved_filters.parse_filters(saved_filters.format_filters(large)) == large[3:]
    assert saved_filters.set_filter("/tasks?view=all&cursor=9&text=a", "b c") == "/tasks?view=all&text=b+c"


def test_only_moves_that_succeed_are_offered_on_the_board(populated: Desk, operator: Page) -> None:
    """Fault F5: a pending task without an assignee could be dropped on a column that then refused it."""
    populated.ask("task_create", title="Third", epic=1)
    number = populated.ask("task_list")["tasks"][-1]["number"]
    populated.open_page(operator, "/boards/epic/1")
    card = operator.locator(f'[data-task="{number}"]')
    card.dispatch_event("dragstart", {"dataTransfer": operator.evaluate_handle("new DataTransfer()")})
    expect(operator.locator('.board-column[data-state="IN_PROGRESS"]')).to_have_class("board-column cannot-drop")
    expect(operator.locator('.board-column[data-state="COMPLETED"]')).to_have_class("board-column can-drop")
    card.dispatch_event("dragend")
    card.get_by_role("button", name="State of").click()
    expect(operator.get_by_role("option")).to_have_text(["Completed", "Cancelled"])
    operator.keyboard.press("Escape")
    card.get_by_role("button", name="Assignee of").click()
    operator.get_by_role("option", name="tester").click()
    column = operator.locator('.board-column[data-state="ASSIGNED"]')
    expect(column.locator(f'[data-task="{number}"]')).to_be_visible()
    card.get_by_role("button", name="State of").click()
    expect(operator.get_by_role("option")).to_have_text(["In progress", "Pending", "Completed", "Cancelled"])


def test_cards_keep_their_size_under_the_pointer(populated: Desk, operator: Page) -> None:
    """Fault F19: a form unfolded in the card under the pointer, and everything below it jumped."""
    populated.open_page(operator, "/boards/epic/1")
    card = operator.locator('[data-task="1"]')
    before = card.bounding_box()
    card.hover()
    card.get_by_role("link").focus()
    assert card.bounding_box() == before


def test_a_board_is_used_with_the_keyboard_alone(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/boards/epic/1")
    operator.keyboard.press("c")
    operator.keyboard.type("By keyboard")
    operator.keyboard.press("Enter")
    expect(operator.get_by_role("link", name="By keyboard")).to_be_visible()
    card = operator.locator(".task-card", has_text="By keyboard")
    for _ in range(10):
        operator.keyboard.press("j")
        if "selected" in (card.get_attribute("class") or ""):
            break
    operator.keyboard.press("p")
    operator.keyboard.type("crit")
    operator.keyboard.press("Enter")
    expect(card.locator(".priority.p0")).to_be_visible()
    operator.keyboard.press("a")
    operator.keyboard.type("tester")
    operator.keyboard.press("Enter")
    expect(card.get_by_role("button", name="Assignee of")).to_have_attribute("title", "tester")
    operator.keyboard.press("s")
    operator.keyboard.press("Enter")
    in_progress = operator.locator('.board-column[data-state="IN_PROGRESS"]')
    expect(in_progress.get_by_role("link", name="By keyboard")).to_be_visible()


def test_several_tasks_are_changed_at_once_in_the_list(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/boards/epic/1?view=list")
    for name in ("task-1", "task-2"):
        operator.get_by_label(f"Select {name}").check()
    bar = operator.get_by_role("form", name="Change the selected tasks")
    expect(bar).to_contain_text("2 selected")
    bar.get_by_label("Assignee").select_option("tester")
    bar.get_by_label("Priority").select_option("low")
    bar.get_by_role("button", name="Apply").click()
    expect(operator.get_by_role("status").filter(has_text="Changed 2 tasks")).to_be_visible()
    expect(bar).to_be_hidden()
    tasks = populated.ask("task_list")["tasks"]
    changed = {task["id"] for task in tasks if (task["assignee"], task["priority"]) == ("tester", 3)}
    assert changed == {"task-1", "task-2"}
    # All or none: the second waits for the first.
    for name in ("task-1", "task-2"):
        operator.get_by_label(f"Select {name}").check()
    bar.get_by_label("State").select_option("IN_PROGRESS")
    bar.get_by_role("button", name="Apply").click()
    expect(operator.get_by_role("alert")).to_contain_text("task-2 is blocked by task-1")
    tasks = populated.ask("task_list")["tasks"]
    assert {task["id"] for task in tasks if task["state"] == "ASSIGNED"} == {"task-1", "task-2"}


def test_the_graph_of_an_epic_links_to_its_tasks(populated: Desk, operator: Page) -> None:
    populated.ask("task_create", title="Alone", epic=1)
    populated.open_page(operator, "/boards/epic/1?view=graph")
    expect(operator.locator(".graph a")).to_have_count(3)
    expect(operator.locator(".graph .edge")).to_have_count(1)
    # In one step: an update of the page replaces the graph, and a rectangle of the old one has no place.
    end, start = operator.evaluate(
        """() => [1, 2].map((number) => {
            const box = document.querySelector(`.graph a[href="/tasks/${number}"] rect`).getBoundingClientRect();
            return number === 1 ? box.right : box.left;
        })"""
    )
    assert end < start
    operator.locator('.graph a[href="/tasks/2"]').click()
    operator.wait_for_url(f"{populated.url}/tasks/2")


def test_all_tasks_are_listed_across_epics(populated: Desk, operator: Page) -> None:
    populated.ask("task_create", title="Alone")
    populated.open_page(operator, "/tasks")
    operator.get_by_role("link", name="All tasks").click()
    expect(operator.locator(".task-row")).to_have_count(4)  # two of an epic, one of a crew, one of none
    operator.get_by_label("Filter tasks").fill("alone")
    expect(operator.locator(".task-row:visible")).to_have_count(1)
    operator.get_by_label("Filter tasks").press("Enter")
    expect(operator.locator(".task-row")).to_have_count(1)


def test_groups_of_tasks_begin_with_what_a_person_can_act_on() -> None:
    tasks = [
        {"number": number, "state": state, "priority": priority}
        for number, (state, priority) in enumerate([("PENDING", 2), ("IN_PROGRESS", 2), ("PENDING", 0), ("REVIEW", 4)])
    ]
    groups = group_tasks(tasks)
    assert [(state, [task["number"] for task in group]) for state, group in groups.items()] == [
        ("REVIEW", [3]),
        ("IN_PROGRESS", [1]),
        ("PENDING", [2, 0]),
    ]


def test_comments_and_what_was_done_are_one_stream_in_sentences(populated: Desk, operator: Page) -> None:
    populated.call_as("builder", "mcp__task__update_status", taskId="task-1", state="IN_PROGRESS")
    populated.ask("task_comment", number=1, body="Well begun, see mail-1")
    populated.ask("task_edit", number=1, priority=1)
    run_in_thread(populated.server.shopfloor.engine.database.store.flush)
    populated.open_page(operator, "/tasks/1")
    stream = operator.locator(".stream")
    expect(stream).to_contain_text("lead created it")
    expect(stream).to_contain_text("lead assigned it to builder")
    expect(stream).to_contain_text("builder moved it to in progress")
    expect(stream.locator("li").last).to_contain_text("operator set the priority to high")
    expect(stream.get_by_role("link", name="mail-1")).to_have_attribute("href", "/inbox/mail-1")


def test_a_list_is_a_board_for_its_owner(populated: Desk, browser: Browser) -> None:
    populated.ask("user_add", name="looker", role="viewer")
    run_in_thread(
        lambda: populated.server.shopfloor.call(
            "todo_direct", "add_task", {"user_id": "looker", "title": "Water plants"}
        )
    )
    with open_desk_context(browser) as context:
        page = populated.sign_in(context, "looker")
        populated.open_page(page, "/tasks")
        page.get_by_role("link", name="looker").click()
        page.wait_for_selector('#live[data-state="live"]')
        page.locator(".task-card").drag_to(page.locator('.board-column[data-state="COMPLETED"]'))
        expect(page.locator('.board-column[data-state="COMPLETED"] .task-card')).to_contain_text("Water plants")
        page.locator(".task-card").get_by_role("button", name="State of").click()
        page.get_by_role("option", name="Pending").click()
        expect(page.locator('.board-column[data-state="PENDING"] .task-card')).to_contain_text("Water plants")


def test_other_users_cannot_see_or_move_a_list(populated: Desk, browser: Browser) -> None:
    for name in ("looker", "other"):
        populated.ask("user_add", name=name, role="editor")
    run_in_thread(
        lambda: populated.server.shopfloor.call(
            "todo_direct", "add_task", {"user_id": "looker", "title": "Secret plan"}
        )
    )
    with open_desk_context(browser) as first, open_desk_context(browser) as second:
        populated.open_page(populated.sign_in(first, "looker"), "/lists/looker")
        page = populated.sign_in(second, "other")
        assert populated.open_page(page, "/lists/looker") == 404
        csrf = page.locator('meta[name="csrf"]').get_attribute("content")
        cookies = {cookie["name"]: cookie["value"] for cookie in second.cookies()}
        form = {"csrf": csrf, "number": "2", "state": "COMPLETED"}
        with httpx2.Client(base_url=populated.url, cookies=cookies, timeout=300) as client:
            assert client.post("/lists/looker/move", data=form).status_code == 404
            with client.stream("GET", "/live?page=/lists/looker") as stream:
                lines = stream.iter_lines()
                populated.server.call("looker", "add_task", title="Another secret")
                printed_lines = [next(lines) for _ in range(3)]
    assert not any("secret" in line.lower() for line in printed_lines)
    assert {task["completed"] for task in populated.server.tasks("looker")} == {False}


def test_the_operator_moves_tasks_on_behalf_of_the_owner_and_the_log_names_both(
    populated: Desk, operator: Page
) -> None:
    populated.open_page(operator, "/lists/guest")
    expect(operator.get_by_text("You are acting on behalf of guest")).to_be_visible()
    operator.locator(".task-card").drag_to(operator.locator('.board-column[data-state="COMPLETED"]'))
    expect(operator.locator('.board-column[data-state="COMPLETED"] .task-card')).to_be_visible()
    call = populated.ask("log_search", tool="complete")["calls"][0]
    assert (call["agent"], call["by"]) == ("user:guest", "operator:operator")
