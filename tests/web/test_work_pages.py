"""Agents, runs, knowledge and metrics: what people see of the work, and what they do about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from playwright.sync_api import Browser, Page, Route, expect

from shopfloor.domain.runs import RunState
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import iterations, run_requests, runs, usage
from shopfloor.web.views.knowledge import fold_duplicates
from tests.serving import run_in_thread
from tests.web.desk_support import Desk, open_desk_context

# Agents


def test_agents_are_listed_with_their_work_and_have_a_page_each(populated: Desk, operator: Page) -> None:
    populated.call_as("builder", "mcp__task__update_status", taskId="task-1", state="IN_PROGRESS")
    populated.write(lambda uow: usage.record_usage(uow, 1500, 2_000_000, agent="builder"))
    run_in_thread(populated.server.shopfloor.engine.database.store.flush)
    populated.open_page(operator, "/agents")
    row = operator.locator(".agent-list .list-row", has_text="builder")
    expect(row).to_contain_text("Working")
    expect(row).to_contain_text("Use a queue")
    row.get_by_role("link", name="builder").click()
    operator.wait_for_url(f"{populated.url}/agents/builder")
    main = operator.locator("main")
    expect(main).to_contain_text("1,500 tokens, $2.00")
    expect(operator.locator(".properties")).to_contain_text("expires in")
    call = main.locator(".call-row", has=operator.get_by_role("link", name="task update status"))
    expect(call).to_contain_text("in progress")
    expect(operator.locator(".credentials")).to_contain_text("valid")
    operator.get_by_label("Message to builder").fill("Mind the tests")
    operator.get_by_role("button", name="Send").click()
    expect(operator.get_by_role("status").filter(has_text="Sent to builder")).to_be_visible()
    inbox = populated.call_as("builder", "mcp__mail__list_inbox")["mails"]
    assert inbox[0]["subject"] == "Message from the desk"


def test_a_lease_is_named_in_the_right_tense(populated: Desk, operator: Page) -> None:
    """Fault F10: a task that was just assigned to an agent which had been idle for long was shown as overdue."""
    populated.execute("UPDATE agent SET last_active_at = 1")
    populated.ask("task_assign", number=2, agentId="tester")
    populated.open_page(operator, "/agents/tester")
    expect(operator.locator(".properties")).to_contain_text("expires in")


def test_an_agent_is_created_retired_and_unknown_ones_are_not_found(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/agents")
    operator.get_by_role("button", name="New agent").click()
    dialog = operator.get_by_role("dialog")
    dialog.get_by_label("Name").fill("painter")
    dialog.locator("[name=supervisor]").select_option("lead")
    dialog.get_by_role("button", name="Create and show its token").click()
    expect(operator.locator("main")).to_contain_text("sfa_")
    populated.open_page(operator, "/agents/painter")
    operator.get_by_label("Actions for painter").click()
    operator.once("dialog", lambda dialog: dialog.accept())
    operator.get_by_role("button", name="Retire painter").click()
    expect(operator.locator(".properties")).to_contain_text("Retired")
    assert populated.open_page(operator, "/agents/nonsense") == 404


# Runs


def test_the_answers_to_a_permission_are_one_row_and_have_the_same_names_everywhere(
    populated: Desk, operator: Page
) -> None:
    operator.set_viewport_size({"width": 1440, "height": 900})
    for path in ("/home", "/inbox", "/runs/night"):
        populated.open_page(operator, path)
        buttons = [
            operator.locator("main").get_by_role("button", name=name, exact=True).first
            for name in ("Allow once", "Allow for this run", "Deny")
        ]
        boxes = [button.bounding_box() for button in buttons]
        assert len({box["y"] for box in boxes if box}) == 1, (path, boxes)


def test_a_run_is_shown_with_one_spelling_of_its_state_and_time_that_stops(populated: Desk, operator: Page) -> None:
    def work(uow: UnitOfWork) -> None:
        iterations.end_iteration(
            uow, "night", outcome="ended", failure=None, tokens=1200, cost=500_000, spent=90_000_000
        )
        runs.finish_run(uow, "night", RunState.STOPPED, "a person stopped it")

    populated.write(work)
    populated.open_page(operator, "/runs")
    row = operator.locator(".run-row").filter(has=operator.get_by_role("link", name="night", exact=True))
    expect(row).to_contain_text("Stopped")
    row.get_by_role("link", name="night", exact=True).click()
    operator.wait_for_url(f"{populated.url}/runs/night")
    expect(operator.locator(".run-head")).to_contain_text("Stopped")
    expect(operator.locator(".properties")).to_contain_text("1 min 30 s of 2 h 0 min")
    expect(operator.locator(".properties")).to_contain_text("1,200 of 90,000")
    expect(operator.locator(".iterations")).to_contain_text("1,200 tokens")
    expect(operator.locator("main")).to_contain_text("a person stopped it")


def test_a_question_of_a_run_is_answered_on_its_page(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/runs/night")
    operator.locator(".request button").first.click()
    expect(operator.locator(".past-answers li")).to_have_count(1)
    expect(operator.locator(".request")).to_have_count(0)


def test_a_run_that_is_stuck_is_answered_in_words_on_its_page(populated: Desk, operator: Page) -> None:
    populated.ask("inbox_decide", request=1, answer="deny")
    populated.write(lambda uow: run_requests.ask_person(uow, "night", "stuck", "Measuring was not allowed", ()))
    populated.open_page(operator, "/runs/night")
    answer = operator.get_by_role("textbox", name="Answer to Measuring was not allowed")
    answer.fill("Measure the copy")
    answer.press("Enter")
    expect(operator.locator(".past-answers")).to_contain_text("Measure the copy")
    expect(operator.locator(".request")).to_have_count(0)


def test_a_run_is_scheduled_and_cancelled_from_the_page(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/runs")
    operator.get_by_role("button", name="New run").click()
    dialog = operator.get_by_role("dialog")
    dialog.get_by_label("Specification").fill("# Tidy up")
    dialog.get_by_label("Name").fill("nightly")
    dialog.locator("[name=agent]").select_option("opencode acp")
    dialog.get_by_label("Iterations").fill("7")
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    dialog.locator("[name=at]").fill(f"{tomorrow:%Y-%m-%dT10:00}")
    dialog.locator("[name=every]").select_option("day")
    dialog.get_by_role("button", name="Start run").click()
    expect(operator.locator(".launch-row")).to_contain_text("every day")
    (launch,) = populated.ask("launch_list")["launches"]
    assert launch["options"] == {"agent": "opencode acp", "iterations": 7}
    # The browser is in Tokyo, nine hours ahead.
    assert launch["dueAt"] == f"{tomorrow:%Y-%m-%dT01:00:00}.000Z"
    operator.get_by_role("button", name="Cancel the launch of nightly").click()
    expect(operator.locator(".launch-row")).to_have_count(0)


def test_only_the_operator_may_start_runs(populated: Desk, browser: Browser) -> None:
    populated.ask("user_add", name="helper", role="editor")
    with open_desk_context(browser) as context:
        page = populated.sign_in(context, "helper")
        populated.open_page(page, "/runs")
        expect(page.get_by_role("button", name="New run")).to_have_count(0)
        csrf = page.locator('meta[name="csrf"]').get_attribute("content") or ""
        answer = page.request.post(
            f"{populated.url}/act/run_start",
            form={"csrf": csrf, "spec": "x", "agent": "opencode acp"},
            headers={"Accept": "application/json", "Origin": populated.url},
        )
        assert answer.status == 403
    assert populated.ask("launch_list")["launches"] == []


# Knowledge


def test_results_have_titles_links_highlights_and_kinds(populated: Desk, operator: Page) -> None:

    populated.open_page(operator, "/knowledge?q=use+a+queue")
    hits = operator.locator(".hit")
    expect(hits.first).to_be_visible()
    expect(operator.locator(".hit mark").first).to_be_visible()
    operator.get_by_role("link", name="Decisions").click()
    expect(hits).to_have_count(1)
    hits.first.get_by_role("link", name="Use a queue").click()
    operator.wait_for_url(f"{populated.url}/activity/ref-*")


def test_results_that_say_the_same_are_one() -> None:
    """Fault F15: six identical decisions were six results in a row."""
    hit = {"source": "decision", "title": "Use a queue", "excerpt": "It is fast"}
    other = {**hit, "excerpt": "It is small"}
    assert fold_duplicates([hit, other, hit, hit]) == [{**hit, "same": 2}, {**other, "same": 0}]


def test_results_are_paged(populated: Desk, operator: Page) -> None:
    """Fault F14: of 100 results, 20 could be seen."""
    for at in range(45):
        populated.ask("task_create", title=f"Zeppelin {at}")
    populated.open_page(operator, "/knowledge?q=zeppelin")
    expect(operator.locator(".hit")).to_have_count(20)
    expect(operator.locator(".results-line")).to_contain_text("1–20 shown")
    operator.get_by_role("link", name="Next").click()
    expect(operator.locator(".results-line")).to_contain_text("21–40 shown")
    expect(operator.locator(".hit")).to_have_count(20)
    operator.get_by_role("link", name="Next").click()
    expect(operator.get_by_role("link", name="Next")).to_have_count(0)
    operator.get_by_role("link", name="Previous").click()
    expect(operator.locator(".results-line")).to_contain_text("21–40 shown")


# Metrics


def test_metrics_begin_with_the_work_and_keep_the_system_behind(populated: Desk, operator: Page) -> None:
    populated.ask("task_complete", number=1)
    populated.open_page(operator, "/settings/metrics")
    expect(operator.locator(".tile").first).to_contain_text("1")
    expect(operator.locator(".tile").first).to_contain_text("task completed")
    chart = operator.get_by_role("img", name="Tasks completed per day")
    expect(chart.locator("title").last).to_contain_text("1 completed")
    expect(chart.locator(".tick").first).to_have_text("0")
    expect(operator.locator("table")).to_contain_text("builder")
    operator.get_by_role("link", name="30 days").click()
    expect(operator.get_by_role("link", name="30 days")).to_have_attribute("aria-current", "true")
    operator.get_by_role("link", name="System").click()
    expect(operator.locator("main")).to_contain_text("writes per commit")


def test_the_tabs_of_the_settings_stay_in_place(populated: Desk, operator: Page) -> None:
    places = []
    for path in ("/settings/access", "/settings/notifications", "/settings/metrics"):
        populated.open_page(operator, path)
        places.append(operator.get_by_role("link", name="Metrics").bounding_box())
    assert places[0] == places[1] == places[2]
    operator.set_viewport_size({"width": 390, "height": 844})
    assert operator.locator("h1").evaluate("heading => heading.scrollWidth <= heading.clientWidth")


def test_titles_of_open_and_done_tasks_begin_on_one_line(populated: Desk, operator: Page) -> None:
    populated.ask("task_complete", number=1)
    populated.open_page(operator, "/boards/epic/1?view=list")
    titles = operator.locator(".task-row .row-title")
    expect(titles).to_have_count(2)
    assert len({box["x"] for box in (title.bounding_box() for title in titles.all()) if box}) == 1


def test_a_value_that_is_chosen_before_the_scripts_run_is_saved(populated: Desk, operator: Page) -> None:
    held: list[Route] = []
    # Playwright looks at the signature of the handler, and `held.append` has none.
    operator.route("**/tasks.js*", lambda route: held.append(route))  # noqa: PLW0108
    operator.goto(f"{populated.url}/tasks/1", wait_until="commit")
    operator.locator("form[data-submit-on-change] select[name=priority]").select_option("critical")
    while not held:
        operator.wait_for_timeout(10)
    held[0].continue_()
    expect(operator.get_by_role("status")).to_contain_text("Priority changed")
    assert populated.write(lambda uow: uow.tasks.get(1)).priority == 0


def test_a_rejected_choice_shows_the_value_that_still_holds(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/tasks/1")
    field = operator.locator("form[data-submit-on-change] select[name=priority]")
    before = field.input_value()
    field.evaluate("field => field.append(new Option('Unknown', '9'))")
    field.select_option("9")
    expect(operator.get_by_role("alert")).to_be_visible()
    expect(field).to_have_value(before)
