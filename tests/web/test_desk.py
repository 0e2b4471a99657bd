"""The desk in a real browser: every page, every action, and nothing that a page must not do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from shopfloor.background.dispatcher import Subscriber
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import runs
from tests.serving import run_in_thread, serve_in_thread
from tests.transports.attacks import attack
from tests.web.desk_support import (
    AXE,
    HOSTILE,
    PAGES,
    Desk,
    PageWatch,
    add_content,
    add_principals,
    open_desk_context,
    populate,
    serve_desk,
)
from tests.workbench import wait_until


@pytest.fixture(scope="module")
def shared_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Serve one desk for all tests that only read."""
    with serve_desk(tmp_path_factory.mktemp("shown")) as desk:
        populate(desk)
        yield desk


# Signing in


def test_a_sign_in_link_works_once(desk: Desk, browser: Browser) -> None:
    run_in_thread(lambda: desk.server.shopfloor.create_agent("lead", "SUPERVISOR"))
    link = desk.create_link()
    with open_desk_context(browser) as context:
        page = context.new_page()
        page.goto(link)
        page.wait_for_url(f"{desk.url}/home")
        cookie = next(
            cookie
            for cookie in context.cookies()
            if cookie["name"].startswith("shopfloor_") and "visitor" not in cookie["name"]
        )
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    with open_desk_context(browser) as context:
        page = context.new_page()
        response = page.goto(link)
        assert response is not None
        assert response.status == 401
        expect(page.get_by_role("alert")).to_have_text("This link has been used or has expired")
        page.goto(f"{desk.url}/home")
        page.wait_for_url(f"{desk.url}/signin**")


def test_an_expired_or_invalid_link_is_rejected(desk: Desk) -> None:
    link = desk.create_link()
    desk.execute("UPDATE token SET expires_at = 1 WHERE kind = 'link'")
    assert httpx2.get(link).status_code == 401
    assert httpx2.get(f"{desk.url}/enter?token=nonsense").status_code == 401
    assert httpx2.get(f"{desk.url}/enter").status_code == 401


def test_a_sign_in_link_is_not_a_token(desk: Desk) -> None:
    key = desk.create_link().partition("token=")[2]
    run_in_thread(lambda: desk.server.shopfloor.create_agent("lead", "SUPERVISOR"))
    for token in (key, key.replace(".", "_"), f"sfl_{key.replace('.', '_')}", f"sfp_{key.replace('.', '_')}"):
        body = {"toolName": "floor_overview", "input": {}}
        answer = httpx2.post(f"{desk.url}/mcp/execute", json=body, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401


def test_signing_out_ends_the_session(populated: Desk, operator: Page) -> None:
    cookies = operator.context.cookies()
    operator.locator(".account summary").click()
    operator.get_by_role("button", name="Sign out").click()
    operator.wait_for_url(f"{populated.url}/signin**")
    operator.context.add_cookies([dict(cookie) for cookie in cookies])  # type: ignore[misc]  # a kept cookie is worth nothing
    operator.goto(f"{populated.url}/home")
    operator.wait_for_url(f"{populated.url}/signin**")


def test_an_expired_session_goes_to_sign_in(populated: Desk, operator: Page) -> None:
    populated.execute("UPDATE token SET expires_at = 1 WHERE kind = 'page'")
    operator.goto(f"{populated.url}/activity")
    operator.wait_for_url(f"{populated.url}/signin**")


def test_a_form_from_elsewhere_is_rejected(populated: Desk, operator: Page) -> None:
    before = populated.ask("board_epics")["epics"]
    cookies = {cookie["name"]: cookie["value"] for cookie in operator.context.cookies()}
    with httpx2.Client(base_url=populated.url, cookies=cookies) as client:
        for csrf in (None, "", "wrong"):
            form = {"title": "Not ours"} if csrf is None else {"title": "Not ours", "csrf": csrf}
            assert client.post("/act/epic_create", data=form).status_code == 403
        assert client.post("/act/epic_create", json={"title": "Not ours"}).status_code == 422
        cross = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
        assert client.post("/act/epic_create", data={"title": "x"}, headers=cross).status_code == 403
        assert client.get("/live?page=/home", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert populated.ask("board_epics")["epics"] == before


# Reading


def test_each_page_opens_and_is_accessible(shared_desk: Desk, browser: Browser) -> None:
    with open_desk_context(browser, bypass_csp=True) as context:
        page = shared_desk.sign_in(context)
        for path in PAGES:
            assert shared_desk.open_page(page, path) == 200, path
            page.add_script_tag(path=AXE)
            page.emulate_media(color_scheme="light")
            assert _list_serious_findings(page) == [], path
            # The schemes differ in colours alone.
            page.emulate_media(color_scheme="dark")
            assert _list_serious_findings(page, rules=["color-contrast"]) == [], path


def _list_serious_findings(page: Page, rules: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return what axe, which the page has loaded, finds serious or critical, by these rules or by all."""
    options = {"resultTypes": ["violations"]} | ({"runOnly": list(rules)} if rules else {})
    found = page.evaluate("options => axe.run(options)", options)
    return [
        (each["id"], each["nodes"][0]["html"][:200])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def test_a_page_that_breaks_a_rule_is_noticed(shared_desk: Desk, browser: Browser) -> None:
    """Break the rules on purpose: a check that cannot fail proves nothing."""
    broken = Desk(shared_desk.server, PageWatch(shared_desk.url))
    with open_desk_context(browser) as context:
        page = broken.sign_in(context)
        broken.open_page(page, "/home")
        assert broken.watch.problems == []
        page.set_viewport_size({"width": 390, "height": 800})
        with page.expect_event("pageerror"):
            page.evaluate(WIDE_INLINE_AND_FAILING)
        assert page.evaluate("document.documentElement.scrollWidth") > 390
    assert any(problem.startswith("console: CSP script-src-elem inline") for problem in broken.watch.problems)
    assert "script failed: on purpose" in broken.watch.problems
    with open_desk_context(browser, bypass_csp=True) as context:
        page = broken.sign_in(context)
        broken.open_page(page, "/home")
        page.add_script_tag(path=AXE)
        page.evaluate("document.querySelector('main').append(new Image())")
        assert ("image-alt", "<img>") in _list_serious_findings(page)


WIDE_INLINE_AND_FAILING = """
() => {
  const wide = document.createElement("div");
  wide.append("x".repeat(500));
  wide.style.whiteSpace = "nowrap";
  const script = document.createElement("script");
  script.textContent = "window.__inline = 1";
  document.body.append(wide, script);
  setTimeout(() => { throw new Error("on purpose"); }, 100);
}
"""


OVERLAPS = """
() => {
  const overlaps = [];
  for (const row of document.querySelectorAll("main .list-row")) {
    const boxes = [];
    for (const child of row.children) {
      const clip = getComputedStyle(child).overflow === "visible" ? Infinity : child.getBoundingClientRect().right;
      const texts = document.createTreeWalker(child, NodeFilter.SHOW_TEXT);
      const range = document.createRange();
      while (texts.nextNode()) {
        const parent = texts.currentNode.parentElement;
        if (!parent.checkVisibility() || parent.closest("details, .visually-hidden")) continue;
        range.selectNode(texts.currentNode);
        for (const { left, right, top, bottom } of range.getClientRects())
          if (left < clip) boxes.push([child, { left, right: Math.min(right, clip), top, bottom }]);
      }
    }
    for (const [one, a] of boxes)
      for (const [other, b] of boxes)
        if (one !== other && a.left < b.left && a.right > b.left + 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
          overlaps.push(`${one.textContent.trim().slice(0, 40)} | ${other.textContent.trim().slice(0, 40)}`);
  }
  return overlaps;
}
"""


def test_each_page_fits_the_screen_has_a_strict_policy_and_loads_nothing_from_elsewhere(
    shared_desk: Desk, browser: Browser
) -> None:
    with open_desk_context(browser) as context:
        page = shared_desk.sign_in(context)
        for path in PAGES:
            response = page.goto(shared_desk.url + path)
            assert response is not None
            policy = response.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert page.locator("[style], script:not([src]), [onclick], [onload]").count() == 0, path
            for width in (360, 390, 1440, 2560):
                page.set_viewport_size({"width": width, "height": 800})
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
                assert page.evaluate(OVERLAPS) == [], (path, width)


def test_long_words_fit_the_screen(desk: Desk, browser: Browser) -> None:
    word = "x" * 80
    add_principals(desk)
    add_content(desk, word)
    desk.ask("user_add", name="u" * 50)
    desk.ask("agent_create", name="long-" + "a" * 45, type="WORKER")
    table = f"{word}\n\n| a | b |\n|---|---|\n| 1 | {word} |\n\n```\n{word * 4}\n```\n"
    desk.call_as("builder", "mcp__mail__send", toHuman=True, subject=word, body=table)
    desk.call_as("lead", "mcp__task__add_comment", taskId="task-1", body=table)
    mail = desk.ask("inbox_list", includeDone=True)["mails"][0]["id"]
    with open_desk_context(browser) as context:
        page = desk.sign_in(context)
        for path in [*PAGES, f"/inbox/{mail}", "/agents/long-" + "a" * 45]:
            page.goto(desk.url + path)
            for width in (360, 1440):
                page.set_viewport_size({"width": width, "height": 800})
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)


@attack("INJ-01")
def test_hostile_text_is_inert_on_every_page(desk: Desk, browser: Browser) -> None:
    add_principals(desk)
    paths = [path for path in PAGES if path not in ("/runs/night", "/crews/crew-night")]
    for at, text in enumerate(HOSTILE, 1):
        add_content(desk, text, f"night-{at}")
        call = desk.ask("log_search", outcome="decision", limit=1)["calls"][0]["reference"]
        task = desk.ask("board_show", kind="loop", board=f"night-{at}")["columns"][0]["tasks"][0]["number"]
        paths += [
            f"/inbox/mail-{2 * at - 1}", f"/boards/epic/{2 * at - 1}", f"/boards/epic/{2 * at}", f"/tasks/{task - 2}",
            f"/activity/{call}", f"/boards/run/night-{at}", f"/boards/run/night-{at}/{task}", f"/crews/crew-night-{at}",
        ]  # fmt: skip
    seen = set()
    with open_desk_context(browser) as context:
        page = desk.sign_in(context)
        for path in paths:
            assert desk.open_page(page, path) == 200, path
            seen.add(_check_inert(page, path))
    shown = "\n".join(seen)
    for text in HOSTILE[:-1]:
        assert text[:60] in shown
    assert "a[U+202E]b[U+2066]c[U+200B]d[U+0007]e" in shown
    assert not any(char in shown for char in "\u202e\u2066\u200b\u0007")


def _check_inert(page: Page, path: str) -> str:
    """Return the text of a page after checking that nothing which agents wrote has become active."""
    assert page.evaluate("window.__pwn") is None, path
    inside = page.locator("main")
    assert inside.locator("script, iframe, object, embed, img, svg svg").count() == 0, path
    for href in inside.locator("a").evaluate_all("all => all.map((a) => a.getAttribute('href') ?? '')"):
        assert href.startswith(("/", "#", "?", "http://", "https://", "mailto:")), (path, href)
    return inside.inner_text()


def test_times_are_in_the_viewers_zone_with_the_exact_time_on_hover(populated: Desk, operator: Page) -> None:
    populated.execute("UPDATE mail SET created_at = :at", at=1_767_225_600_000_000)  # the first moment of 2026, UTC
    populated.open_page(operator, "/inbox/mail-1")
    time = operator.locator(".pane-item time").first
    expect(time).to_contain_text("1 Jan")
    exact = re.compile(r"Thursday,? 1 January 2026 at 09:00:00 GMT\+9 \(2026-01-01T00:00:00\.000Z\)")
    expect(time).to_have_attribute("title", exact)


# Pages that show nothing of what agents wrote.
WITHOUT_CONTENT = {"/runs", "/activity/calls?q=is:error", *(path for path in PAGES if path.startswith("/settings/"))}


def test_pages_can_be_read_and_used_without_scripts(populated: Desk, browser: Browser) -> None:
    with open_desk_context(browser, java_script_enabled=False) as context:
        page = populated.sign_in(context)
        for path in PAGES:
            response = page.goto(populated.url + path)
            assert response is not None
            assert response.status == 200
            assert path in WITHOUT_CONTENT or "queue" in page.locator("main").inner_text(), path
        page.goto(f"{populated.url}/tasks")
        page.locator("#new-epic").get_by_label("Title").fill("Without scripts")
        page.get_by_role("button", name="Create epic").click()
        expect(page.get_by_role("link", name="Without scripts")).to_be_visible()
        page.goto(f"{populated.url}/tasks/1")
        page.locator(".properties [name=state]").select_option("CANCELLED")
        page.locator('form[action="/act/tasks_change"]').get_by_role("button", name="Set").click()
        expect(page.locator(".properties .state")).to_contain_text("Cancelled")


def test_empty_pages_say_what_to_do_first(desk: Desk, browser: Browser) -> None:
    with open_desk_context(browser) as context:
        page = desk.sign_in(context)
        for path, words in {
            "/home": "shopfloor connect claude",
            "/inbox": "Nothing is waiting for you.",
            "/tasks": "No tasks yet",
            "/agents": "No agents connected yet",
            "/runs": "No runs yet",
            "/activity": "No decisions yet",
            "/activity/calls": "No calls yet",
            "/settings/access": "No members yet.",
            "/knowledge": "Agents record rules, patterns and issues",
        }.items():
            assert desk.open_page(page, path) == 200
            expect(page.locator("main")).to_contain_text(words)


# Live updates


def test_two_browsers_see_each_others_changes(populated: Desk, browser: Browser) -> None:
    with open_desk_context(browser) as one, open_desk_context(browser) as other:
        first, second = populated.sign_in(one), populated.sign_in(other)
        populated.open_page(first, "/boards/epic/1")
        populated.open_page(second, "/boards/epic/1")
        first.get_by_role("button", name="State of task-1").click()
        first.get_by_role("option", name="In progress").click()
        expect(second.locator('.board-column[data-state="IN_PROGRESS"] [data-task="1"]')).to_be_visible()
        populated.open_page(first, "/inbox")
        populated.open_page(second, "/inbox")
        first.get_by_role("button", name="Allow once").click()
        expect(second.get_by_role("button", name="Allow once")).to_have_count(0)
        populated.call_as("tester", "mcp__mail__send", toHuman=True, subject="News for both", body="x")
        for page in (first, second):
            expect(page.get_by_role("link", name="News for both")).to_be_visible()
            expect(page).to_have_title(re.compile(r"^\(\d"))


def test_the_log_and_the_floor_update_as_agents_work(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/activity/calls?agent=tester")
    populated.call_as("tester", "mcp__system__log_decision", title="Take the stack", body="because")
    expect(operator.get_by_text("Take the stack")).to_be_visible()
    populated.open_page(operator, "/home")
    populated.call_as("lead", "mcp__task__assign", taskId="task-2", agentId="tester")
    expect(operator.locator("main")).to_contain_text("Second: Use a queue")


def test_fifty_viewers_of_a_page_share_one_query(populated: Desk, operator: Page) -> None:
    cookies = {cookie["name"]: cookie["value"] for cookie in operator.context.cookies()}
    operator.goto("about:blank")
    with httpx2.Client(
        base_url=populated.url, cookies=cookies, timeout=300, limits=httpx2.Limits(max_connections=60)
    ) as client:
        streams = [client.stream("GET", "/live?page=/tasks") for _ in range(50)]
        lines = [stream.__enter__().iter_lines() for stream in streams]
        for each in lines:
            assert "event: changed" in _read_until(each, "event: changed")
        before = _count_looks(populated)
        populated.ask("epic_create", title="Seen by fifty")
        for each in lines:
            _read_until(each, "Seen by fifty")
        assert _count_looks(populated) - before <= 3
        for stream in streams:
            stream.__exit__(None, None, None)


def _read_until(lines: Iterator[str], text: str) -> str:
    return next(line for line in lines if text in line)


def _count_looks(desk: Desk) -> int:
    run_in_thread(desk.server.shopfloor.engine.database.store.flush)
    rows = run_in_thread(
        lambda: desk.server.shopfloor.engine.database.store.read(
            lambda c: c.fetch_all("SELECT count(*) FROM decision WHERE tool = 'board_epics' AND kind = 'result'")
        )
    )
    return int(rows[0][0])


# Actions


def test_a_task_is_dragged_to_the_columns_that_take_it(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/boards/epic/1")
    columns = {
        state: operator.locator(f'.board-column[data-state="{state}"]') for state in ("IN_PROGRESS", "COMPLETED")
    }
    operator.locator('[data-task="1"]').drag_to(columns["IN_PROGRESS"])
    expect(columns["IN_PROGRESS"].locator('[data-task="1"]')).to_be_visible()
    # It waits for task-1, and nothing is sent.
    operator.locator('[data-task="2"]').drag_to(columns["IN_PROGRESS"])
    expect(columns["IN_PROGRESS"].locator('[data-task="2"]')).to_have_count(0)
    operator.locator('[data-task="1"]').drag_to(columns["COMPLETED"])
    expect(columns["COMPLETED"].locator('[data-task="1"]')).to_be_visible()


def test_a_task_is_created_assigned_commented_on_deleted_and_restored(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/boards/epic/1")
    operator.get_by_role("button", name="New task").click()
    dialog = operator.get_by_role("dialog")
    dialog.get_by_label("Title").fill("Third")
    dialog.get_by_role("button", name="Create task").click()
    operator.get_by_role("link", name="Third").click()
    operator.wait_for_url(f"{populated.url}/tasks/*")
    operator.wait_for_selector('#live[data-state="live"]')
    operator.locator(".properties [name=agentId]").select_option("tester")
    expect(operator.locator(".properties dd").first).to_contain_text("Assigned")
    operator.locator('form[action="/act/task_comment"] textarea').fill("**Well** done")
    operator.get_by_role("button", name="Comment").click()
    expect(operator.locator(".stream .prose strong")).to_have_text("Well")
    operator.locator(".properties [name=state]").select_option("PENDING")
    expect(operator.locator(".properties [name=agentId]")).to_contain_text("Unassigned")
    operator.get_by_label("More actions for").click()
    operator.get_by_role("button", name="Delete").click()
    operator.get_by_role("button", name="Restore").click()
    expect(operator.get_by_role("button", name="Restore")).to_have_count(0)
    expect(operator.locator(".graph")).to_have_count(0)
    populated.open_page(operator, "/tasks/2")
    expect(operator.locator(".graph a")).to_have_count(2)


def test_a_run_is_paused_sent_a_message_and_stopped(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/runs/night")
    for words in ("1 of 5", "of 2 h 0 min", "0 of 90,000", "$0.00 of $2.50"):
        expect(operator.get_by_label("Properties", exact=True)).to_contain_text(words)
    operator.get_by_role("button", name="Pause").click()
    expect(operator.get_by_role("button", name="Resume")).to_be_visible()
    expect(operator.locator(".run-head")).to_contain_text("Paused")
    operator.get_by_label("Message to night").fill("Mind the tests")
    operator.get_by_role("button", name="Send").click()
    expect(operator.get_by_role("status").filter(has_text="Included in the next prompt")).to_be_visible()
    operator.once("dialog", lambda dialog: dialog.accept())
    operator.get_by_role("button", name="Stop").click()
    wait_until(lambda: populated.ask("run_show", run="night")["wanted"] == "stop")


def test_a_run_without_a_driver_is_not_steered_but_retried(populated: Desk, operator: Page) -> None:
    populated.write(lambda uow: runs.create_run(uow, "idle", spec="x", project=".", options="{}"))
    populated.open_page(operator, "/boards/run/idle")
    assert operator.url == f"{populated.url}/runs/idle"
    expect(operator.locator("main")).to_contain_text("No process drives this run")
    expect(operator.get_by_role("button", name="Pause")).to_have_count(0)
    operator.get_by_role("button", name="Retry idle").click()
    wait_until(lambda: [launch["run"] for launch in populated.ask("launch_list")["launches"]] == ["idle"])


def test_a_token_is_shown_once_and_can_be_revoked(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/agents")
    operator.get_by_role("button", name="New agent").click()
    operator.locator('form[action="/act/agent_create"]').get_by_label("Name").fill("newcomer")
    operator.get_by_role("button", name="Create and show its token").click()
    token = operator.locator("#token").inner_text()
    assert token.startswith("sfa_")
    operator.get_by_role("link", name="Done").click()
    expect(operator.locator("main")).not_to_contain_text(token)
    call = {"toolName": "mcp__agent__get_status", "input": {}}
    bearer = {"Authorization": f"Bearer {token}"}
    assert httpx2.post(f"{populated.url}/mcp/execute", json=call, headers=bearer).status_code == 200
    operator.once("dialog", lambda dialog: dialog.accept())
    operator.get_by_label("Actions for newcomer").click()
    operator.get_by_role("button", name="Retire newcomer").click()
    expect(operator.locator(".agent-list")).not_to_contain_text("newcomer")
    expect(operator.locator("details", has=operator.get_by_text("Retired (1)"))).to_contain_text("newcomer")
    assert httpx2.post(f"{populated.url}/mcp/execute", json=call, headers=bearer).status_code == 401
    operator.get_by_label("Actions for tester").click()
    operator.get_by_role("button", name="New token for tester").click()
    token = operator.locator("#token").inner_text()
    assert token.startswith("sfa_")
    commands = operator.locator(".code-block:not(.token) pre").all_inner_texts()
    assert commands[0] == (
        f'claude mcp add --transport http shopfloor {populated.url}/mcp --header "Authorization: Bearer {token}"'
    )
    populated.open_page(operator, "/settings/access")
    operator.once("dialog", lambda dialog: dialog.accept())
    operator.get_by_role("button", name="of lead").click()
    expect(operator.locator(".token-row", has_text="lead").filter(has_text="revoked")).to_have_count(1)


def test_a_dead_letter_is_retried(populated: Desk, operator: Page) -> None:
    shopfloor = populated.server.shopfloor.engine
    heard: list[str] = []
    shopfloor.dispatcher._subscribers = {
        "later": Subscriber(
            "later", frozenset({"decision.logged"}), in_transaction=lambda _, event: heard.append(event.name)
        )
    }
    populated.execute(
        "INSERT INTO delivery (workspace, event, subscriber, due_at, tries, error, dead_at)"
        " SELECT workspace, id, 'later', 1, 10, 'Connection refused', 1 FROM event WHERE name = 'decision.logged'"
    )
    populated.open_page(operator, "/settings/metrics?view=system")
    operator.get_by_role("button", name="Retry event").click()
    expect(operator.get_by_text("No dead letters.")).to_be_visible()
    wait_until(lambda: heard == ["decision.logged"])


# Desk roles and errors


def test_a_viewer_sees_everything_and_changes_nothing(populated: Desk, browser: Browser) -> None:
    populated.ask("user_add", name="looker", role="viewer")
    with open_desk_context(browser) as context:
        page = populated.sign_in(context, "looker")
        page.wait_for_url(f"{populated.url}/home")
        for path in PAGES:
            expected = 404 if path.startswith("/lists/") else 200
            assert populated.open_page(page, path) == expected, path
            # Saved filters are a cookie of this browser.
            assert page.locator('main form[method="post"]:not([action="/filters"])').count() == 0, path
        assert populated.ask("inbox_list")["unreadCount"] == 2  # viewing does not mark as read
        csrf = page.locator('meta[name="csrf"]').get_attribute("content")
        cookies = {cookie["name"]: cookie["value"] for cookie in context.cookies()}
        with httpx2.Client(base_url=populated.url, cookies=cookies) as client:
            for tool, form in {
                "epic_create": {"title": "x"},
                "token_issue": {"agent": "builder"},
                "inbox_ack": {"mailId": "mail-1"},
            }.items():
                assert client.post(f"/act/{tool}", data={**form, "csrf": csrf}).status_code == 403


def test_a_user_without_a_desk_role_sees_only_the_own_list(shared_desk: Desk, browser: Browser) -> None:
    with open_desk_context(browser) as context:
        page = shared_desk.sign_in(context, "guest")
        page.wait_for_url(f"{shared_desk.url}/todo")
        assert page.get_by_role("link", name="Activity", exact=True).count() == 0
        for path in PAGES:
            response = page.goto(shared_desk.url + path)
            assert response is not None
            assert response.status in (403, 404), path
        expect(page.locator("main")).to_contain_text("shopfloor desk NAME viewer")
        cookies = {cookie["name"]: cookie["value"] for cookie in context.cookies()}
        assert httpx2.get(f"{shared_desk.url}/live?page=/home", cookies=cookies).status_code == 403


def test_removing_a_desk_role_closes_open_pages(
    populated: Desk, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shopfloor.web.stream.HEARTBEAT_SECONDS", 0.2)
    populated.ask("user_add", name="looker", role="viewer")
    with open_desk_context(browser) as context:
        page = populated.sign_in(context, "looker")
        populated.open_page(page, "/activity")
        populated.ask("user_set_role", name="looker", role="none")
        page.wait_for_url(f"{populated.url}/signin**")
        populated.watch.problems.clear()


def test_a_rejected_stream_leads_to_sign_in(populated: Desk, operator: Page) -> None:
    operator.route("**/live?*", lambda route: route.fulfill(status=401, body="{}", content_type="application/json"))
    # Closed first, because an open stream would say that the session has ended, and the page would go for that.
    operator.evaluate("dispatchEvent(new Event('pagehide'))")
    populated.execute("UPDATE token SET revoked_at = 1 WHERE kind = 'page'")
    operator.evaluate("dispatchEvent(new Event('pageshow'))")
    operator.wait_for_url(f"{populated.url}/signin**")


def test_a_form_that_is_open_when_the_first_token_is_issued_is_kept(
    desk: Desk, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault F2: the first token, issued by a command, closed the server and took the open form away."""
    monkeypatch.setattr("shopfloor.web.stream.HEARTBEAT_SECONDS", 0.2)
    with open_desk_context(browser) as context:
        page = context.new_page()
        desk.watch.attach(page)
        desk.open_page(page, "/tasks")
        page.get_by_role("button", name="New task").first.click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Title").fill("Ten minutes of work")
        run_in_thread(lambda: desk.server.shopfloor.create_agent("worker"))
        expect(dialog.get_by_role("alert")).to_contain_text("shopfloor link")
        desk.sign_in(context)  # in another tab
        dialog.get_by_role("button", name="Create task").click()
        wait_until(lambda: [task["title"] for task in desk.ask("task_list")["tasks"]] == ["Ten minutes of work"])
        assert page.url == f"{desk.url}/tasks"


def test_unknown_pages_are_not_found(shared_desk: Desk, browser: Browser) -> None:
    with open_desk_context(browser) as context:
        page = shared_desk.sign_in(context)
        for path in (
            "/activity/ref-nonsense",
            "/tasks/99",
            "/tasks/0",
            "/boards/epic/77",
            "/boards/run/unknown",
            "/inbox/mail-9",
            "/nonsense",
        ):
            response = page.goto(shared_desk.url + path)
            assert response is not None
            assert response.status == 404, path
            expect(page.get_by_role("alert")).to_be_visible()
            expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
            expect(page.get_by_role("link", name="Back")).to_have_attribute("href", "/")
        for address in (
            "/live?page=/nowhere",
            "/live?page=//evil.example/",
            "/live",
            "/live?page=/activity/ref-x",
            "/live?page=//[",
            f"/live?page=/tasks?{'%26'.join(['a=1'] * 60)}",
        ):
            answer = page.request.get(shared_desk.url + address)
            assert answer.status == 404, address


def test_a_server_closes_its_streams_when_it_stops(tmp_path: Path) -> None:
    shopfloor = run_in_thread(lambda: Shopfloor(Settings(project=tmp_path, port=0, embeddings="off")).__enter__())
    with serve_in_thread(shopfloor) as server, httpx2.Client(base_url=server.url, timeout=300) as client:
        stream = client.stream("GET", "/live?page=/home")
        lines = stream.__enter__().iter_lines()
        _read_until(lines, "event: ready")
        run_in_thread(shopfloor.engine.cancel_waits)
        assert list(lines)[-1:] != ["never"]
        stream.__exit__(None, None, None)
    run_in_thread(shopfloor.close)


FIND_CONTROLS_THAT_TOUCH = """() => {
  const isShown = (element) => element.checkVisibility() && !element.closest(".visually-hidden");
  const controls = [...document.querySelectorAll("main :is(button, a.button)")].filter(isShown);
  const boxes = controls.map((element) => [element.textContent.trim(), element.getBoundingClientRect()]);
  const found = [];
  for (const [index, [name, a]] of boxes.entries()) {
    for (const [other, b] of boxes.slice(index + 1)) {
      const across = Math.max(a.left, b.left) - Math.min(a.right, b.right);
      const down = Math.max(a.top, b.top) - Math.min(a.bottom, b.bottom);
      if (down < 0 && across < 4) found.push(`${name} touches ${other}`);
    }
  }
  return found;
}"""
FIND_FORMS_OUT_OF_LINE = """() => {
  const found = [];
  for (const form of document.querySelectorAll("main form")) {
    const fields = form.querySelectorAll("input:not([type=hidden], [type=checkbox]), select, button");
    const shown = [...fields].filter((each) => each.checkVisibility() && !each.closest(".visually-hidden"));
    const boxes = shown.map((each) => each.getBoundingClientRect()).filter((box) => box.height > 4);
    for (const a of boxes) {
      for (const b of boxes) {
        const isOneLine = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
        if (isOneLine && Math.abs(a.top + a.bottom - b.top - b.bottom) > 2) found.push(form.action);
      }
    }
  }
  return found;
}"""
FIND_PAIRS_OUT_OF_LINE = """() => [...document.querySelectorAll("main :is(.columns-2, .chart-grid, .tiles)")]
  .filter((grid) => {
    const [first, second] = [...grid.children].map((child) => child.getBoundingClientRect());
    return second && second.left > first.right && Math.abs(first.top - second.top) > 1;
  })
  .map((grid) => grid.className)"""


def test_controls_do_not_touch_and_are_in_line_with_their_fields(populated: Desk, browser: Browser) -> None:
    """Fault F35: a button above its field, cards of a pair at different heights, and *Save* beside *Delete*."""
    with open_desk_context(browser, viewport={"width": 1440, "height": 900}) as context:
        page = populated.sign_in(context)
        for path in PAGES:
            page.goto(populated.url + path)
            for script in (FIND_CONTROLS_THAT_TOUCH, FIND_FORMS_OUT_OF_LINE, FIND_PAIRS_OUT_OF_LINE):
                assert page.evaluate(script) == [], path
