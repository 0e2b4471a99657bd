"""The desk in a real browser: each page opened, each action done, and nothing that a page must not do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from shopfloor.background.dispatcher import Subscriber
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.serving import away, served
from tests.web.desk_support import AXE, HOSTILE, PAGES, Desk, at_the_desk, fill, hire, opened, populate
from tests.workbench import until


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """One floor for all tests that only look."""
    with opened(tmp_path_factory.mktemp("shown")) as desk:
        populate(desk)
        yield desk


# Coming in


def test_the_link_opens_the_floor_once(desk: Desk, browser: Browser) -> None:
    away(lambda: desk.server.floor.hire("lead", "SUPERVISOR", None, with_token=True))
    link = desk.link()
    with at_the_desk(browser) as context:
        page = context.new_page()
        page.goto(link)
        page.wait_for_url(f"{desk.url}/floor")
        cookie = next(
            cookie
            for cookie in context.cookies()
            if cookie["name"].startswith("shopfloor_") and "visitor" not in cookie["name"]
        )
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    with at_the_desk(browser) as context:
        page = context.new_page()
        response = page.goto(link)
        assert response is not None
        assert response.status == 401
        expect(page.get_by_role("alert")).to_have_text("This link was used before, or is too old")
        page.goto(f"{desk.url}/floor")
        page.wait_for_url(f"{desk.url}/signin**")


def test_an_old_link_opens_nothing(desk: Desk) -> None:
    link = desk.link()
    desk.execute("UPDATE token SET expires_at = 1 WHERE kind = 'link'")
    assert httpx2.get(link).status_code == 401
    assert httpx2.get(f"{desk.url}/enter?key=nonsense").status_code == 401
    assert httpx2.get(f"{desk.url}/enter").status_code == 401


def test_a_link_is_no_credential_of_its_own(desk: Desk) -> None:
    key = desk.link().partition("key=")[2]
    away(lambda: desk.server.floor.hire("lead", "SUPERVISOR", None, with_token=True))
    for token in (key, key.replace(".", "_"), f"sfl_{key.replace('.', '_')}", f"sfp_{key.replace('.', '_')}"):
        body = {"toolName": "floor_overview", "input": {}}
        answer = httpx2.post(f"{desk.url}/mcp/execute", json=body, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401


def test_signing_out_ends_the_session(filled: Desk, operator: Page) -> None:
    cookies = operator.context.cookies()
    operator.get_by_role("button", name="Sign out").click()
    operator.wait_for_url(f"{filled.url}/signin**")
    operator.context.add_cookies([dict(cookie) for cookie in cookies])  # type: ignore[misc]  # whoever kept the cookie has nothing
    operator.goto(f"{filled.url}/floor")
    operator.wait_for_url(f"{filled.url}/signin**")


def test_a_session_ends_by_itself(filled: Desk, operator: Page) -> None:
    filled.execute("UPDATE token SET expires_at = 1 WHERE kind = 'page'")
    operator.goto(f"{filled.url}/log")
    operator.wait_for_url(f"{filled.url}/signin**")


def test_a_form_that_is_not_ours_is_refused(filled: Desk, operator: Page) -> None:
    cookies = {cookie["name"]: cookie["value"] for cookie in operator.context.cookies()}
    with httpx2.Client(base_url=filled.url, cookies=cookies) as client:
        for csrf in (None, "", "wrong"):
            form = {"title": "Not ours"} if csrf is None else {"title": "Not ours", "csrf": csrf}
            assert client.post("/act/epic_create", data=form).status_code == 403
        assert client.post("/act/epic_create", json={"title": "Not ours"}).status_code == 422
        cross = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
        assert client.post("/act/epic_create", data={"title": "x"}, headers=cross).status_code == 403
        assert client.get("/live?page=/floor", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert len(filled.ask("board_epics")["epics"]) == 1


# Looking


def test_each_page_opens_and_is_accessible(shown: Desk, browser: Browser) -> None:
    with at_the_desk(browser, bypass_csp=True) as context:
        page = shown.enter(context)
        for path in PAGES:
            assert shown.open(page, path) == 200, path
            page.add_script_tag(path=AXE)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                found = page.evaluate("axe.run({resultTypes: ['violations']})")
                serious = [
                    (each["id"], each["nodes"][0]["html"][:200])
                    for each in found["violations"]
                    if each["impact"] in ("serious", "critical")
                ]
                assert serious == [], (path, scheme)


def test_no_page_is_wider_than_the_screen(shown: Desk, browser: Browser) -> None:
    with at_the_desk(browser) as context:
        page = shown.enter(context)
        for path in PAGES:
            shown.open(page, path)
            for width in (360, 390, 1440, 2560):
                page.set_viewport_size({"width": width, "height": 800})
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)


def test_pages_carry_a_strict_policy_and_load_nothing_from_outside(shown: Desk, browser: Browser) -> None:
    with at_the_desk(browser) as context:
        page = shown.enter(context)
        for path in PAGES:
            response = page.goto(shown.url + path)
            assert response is not None
            policy = response.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert page.locator("[style], script:not([src]), [onclick], [onload]").count() == 0, path


def test_hostile_text_is_inert_on_every_page(desk: Desk, browser: Browser) -> None:
    hire(desk)
    paths = list(PAGES)
    for at, text in enumerate(HOSTILE, 1):
        fill(desk, text, f"night-{at}")
        call = desk.ask("log_search", outcome="decision", limit=1)["calls"][0]["reference"]
        task = desk.ask("board_show", kind="loop", board=f"night-{at}")["columns"][0]["tasks"][0]["number"]
        paths += [
            f"/inbox/mail-{2 * at - 1}", f"/boards/epic/{at}", f"/tasks/{task - 2}", f"/log/{call}",
            f"/boards/loop/night-{at}", f"/boards/loop/night-{at}/{task}",
        ]  # fmt: skip
    seen = set()
    with at_the_desk(browser) as context:
        page = desk.enter(context)
        for path in paths:
            if path != "/boards/loop/night":
                assert desk.open(page, path) == 200, path
                seen.add(_inert(page, path))
    shown = "\n".join(seen)
    for text in HOSTILE[:-1]:
        assert text[:60] in shown
    assert "a[U+202E]b[U+2066]c[U+200B]d[U+0007]e" in shown
    assert not any(char in shown for char in "\u202e\u2066\u200b\u0007")


def _inert(page: Page, path: str) -> str:
    """The words of a page on which nothing of what agents wrote came to life."""
    assert page.evaluate("window.__pwn") is None, path
    inside = page.locator("main")
    assert inside.locator("script, iframe, object, embed, img, svg svg").count() == 0, path
    for href in inside.locator("a").evaluate_all("all => all.map((a) => a.getAttribute('href') ?? '')"):
        assert href.startswith(("/", "#", "?", "http://", "https://", "mailto:")), (path, href)
    return inside.inner_text()


def test_times_are_in_the_viewers_zone_with_the_exact_one_on_hover(filled: Desk, operator: Page) -> None:
    filled.execute("UPDATE mail SET created_at = :at", at=1_767_225_600_000_000)  # the first moment of 2026, UTC
    filled.open(operator, "/inbox/mail-1")
    time = operator.locator("article time").first
    expect(time).to_contain_text("09:00:00")
    exact = re.compile(r"Thursday,? 1 January 2026 at 09:00:00 GMT\+9 \(2026-01-01T00:00:00\.000Z\)")
    expect(time).to_have_attribute("title", exact)


def test_pages_can_be_read_and_used_without_scripts(filled: Desk, browser: Browser) -> None:
    with at_the_desk(browser, java_script_enabled=False) as context:
        page = filled.enter(context)
        for path in PAGES:
            response = page.goto(filled.url + path)
            assert response is not None
            assert response.status == 200
        page.goto(f"{filled.url}/boards")
        page.get_by_text("New epic").click()
        page.get_by_label("Title").fill("Without scripts")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("link", name="Without scripts")).to_be_visible()
        page.goto(f"{filled.url}/tasks/1")
        page.get_by_label("Move to").select_option("CANCELLED")
        page.get_by_role("button", name="Move").click()
        expect(page.get_by_text("cancelled is final.")).to_be_visible()


def test_an_empty_floor_says_what_to_do_first(desk: Desk, browser: Browser) -> None:
    with at_the_desk(browser) as context:
        page = desk.enter(context)
        for path, words in {
            "/floor": "shopfloor agent add NAME",
            "/inbox": "Nothing waits for you.",
            "/boards": "There is no epic yet.",
            "/log": "No call has been made yet.",
            "/people": "No key has been issued",
            "/context": "Nothing has been learned yet.",
        }.items():
            assert desk.open(page, path) == 200
            expect(page.locator("main")).to_contain_text(words)


# Two people at once


def test_two_browsers_see_each_others_changes(filled: Desk, browser: Browser) -> None:
    with at_the_desk(browser) as one, at_the_desk(browser) as other:
        first, second = filled.enter(one), filled.enter(other)
        filled.open(first, "/boards/epic/1")
        filled.open(second, "/boards/epic/1")
        ticket = first.locator('[data-task="1"]')
        ticket.hover()
        ticket.get_by_label("Move task-1 to").select_option("IN_PROGRESS")
        ticket.get_by_role("button", name="Move task-1").click()
        expect(second.locator('[data-state="IN_PROGRESS"] [data-task="1"]')).to_be_visible()
        filled.open(first, "/inbox")
        filled.open(second, "/inbox")
        first.get_by_role("button", name="no", exact=True).click()
        expect(second.get_by_role("button", name="no", exact=True)).to_have_count(0)
        filled.agent("tester", "mcp__mail__send", toHuman=True, subject="News for both", body="x")
        for page in (first, second):
            expect(page.get_by_role("link", name="News for both")).to_be_visible()
            expect(page).to_have_title(re.compile(r"^\(\d"))


def test_the_log_and_the_floor_follow_what_agents_do(filled: Desk, operator: Page) -> None:
    filled.open(operator, "/log?agent=tester")
    filled.agent("tester", "mcp__system__log_decision", title="Take the stack", body="because")
    expect(operator.get_by_text("Take the stack")).to_be_visible()
    filled.open(operator, "/floor")
    filled.agent("lead", "mcp__task__assign", taskId="task-2", agentId="tester")
    expect(operator.locator("main")).to_contain_text("Second: Use a queue")


def test_fifty_open_pages_cost_one_look(filled: Desk, operator: Page) -> None:
    cookies = {cookie["name"]: cookie["value"] for cookie in operator.context.cookies()}
    operator.goto("about:blank")
    with httpx2.Client(
        base_url=filled.url, cookies=cookies, timeout=60, limits=httpx2.Limits(max_connections=60)
    ) as client:
        streams = [client.stream("GET", "/live?page=/boards") for _ in range(50)]
        lines = [stream.__enter__().iter_lines() for stream in streams]
        for each in lines:
            assert "event: changed" in _until(each, "event: changed")
        before = _looks(filled)
        filled.ask("epic_create", title="Seen by fifty")
        for each in lines:
            _until(each, "Seen by fifty")
        assert _looks(filled) - before <= 3
        for stream in streams:
            stream.__exit__(None, None, None)


def _until(lines: Iterator[str], text: str) -> str:
    return next(line for line in lines if text in line)


def _looks(desk: Desk) -> int:
    away(desk.server.floor.floor.works.store.flush)
    rows = away(
        lambda: desk.server.floor.floor.works.store.read(
            lambda c: c.all("SELECT count(*) FROM decision WHERE tool = 'board_epics' AND kind = 'result'")
        )
    )
    return int(rows[0][0])


# Doing


def test_a_question_a_permission_and_mail_are_dealt_with(filled: Desk, operator: Page) -> None:
    filled.open(operator, "/inbox")
    operator.get_by_role("button", name="allow once").click()
    expect(operator.get_by_text("night asks")).to_have_count(0)
    operator.get_by_role("button", name="Use a queue", exact=True).click()
    expect(operator.locator(".item")).to_have_count(1)
    operator.get_by_role("button", name="Mute for a day: Use a queue").click()
    expect(operator.get_by_text("1 muted here.")).to_be_visible()
    operator.get_by_text("Muted (1)").click()
    operator.get_by_role("button", name="Unmute thread:1").click()
    expect(operator.locator(".item")).to_have_count(1)
    operator.get_by_role("button", name="Acknowledge: Use a queue").click()
    expect(operator.get_by_text("Nothing waits for you.")).to_be_visible()
    expect(operator.locator("[data-badge]")).to_be_hidden()


def test_mail_is_read_replied_to_passed_on_and_written(filled: Desk, operator: Page) -> None:
    filled.open(operator, "/inbox/mail-1")
    operator.get_by_label("Your reply").fill("I am on it")
    operator.get_by_role("button", name="Send").click()
    expect(operator.locator(".thread article")).to_have_count(2)
    operator.get_by_text("Pass on to an agent").click()
    operator.locator('form[action="/act/inbox_delegate"] select').select_option("tester")
    operator.get_by_label("Note").fill("Please see")
    operator.get_by_role("button", name="Pass on", exact=True).click()
    operator.wait_for_url(f"{filled.url}/inbox")
    operator.get_by_text("Write to an agent").click()
    operator.locator('form[action="/act/inbox_write"] select').select_option("builder")
    operator.get_by_label("Subject").fill("Hello")
    operator.get_by_label("Body").fill("There")
    operator.get_by_role("button", name="Send").click()
    expect(operator.get_by_text("Done")).to_be_visible()
    assert {mail["subject"] for mail in filled.agent("tester", "mcp__mail__list_inbox")["mails"]} == {
        "Fwd: Use a queue"
    }
    assert "Hello" in {mail["subject"] for mail in filled.agent("builder", "mcp__mail__list_inbox")["mails"]}


def test_the_inbox_works_by_keys(filled: Desk, operator: Page) -> None:
    filled.open(operator, "/inbox")
    operator.keyboard.press("j")
    operator.keyboard.press("j")
    operator.keyboard.press("j")
    expect(operator.locator(".item.chosen")).to_contain_text("Use a queue")
    operator.keyboard.press("a")
    expect(operator.locator(".item")).to_have_count(2)
    operator.keyboard.press("k")
    operator.keyboard.press("j")
    operator.keyboard.press("Enter")
    operator.wait_for_url(f"{filled.url}/inbox/mail-2")


def test_a_ticket_is_dragged_and_an_illegal_move_is_refused(filled: Desk, operator: Page) -> None:
    filled.open(operator, "/boards/epic/1")
    operator.locator('[data-task="1"]').drag_to(operator.locator('[data-state="IN_PROGRESS"]'))
    expect(operator.locator('[data-state="IN_PROGRESS"] [data-task="1"]')).to_be_visible()
    operator.locator('[data-task="1"]').drag_to(operator.locator('[data-state="COMPLETED"]'))
    expect(operator.get_by_role("alert")).to_contain_text(
        "A task cannot go from IN_PROGRESS to COMPLETED; allowed: REVIEW"
    )
    expect(operator.locator('[data-state="IN_PROGRESS"] [data-task="1"]')).to_be_visible()


def test_a_task_is_made_given_talked_about_deleted_and_restored(filled: Desk, operator: Page) -> None:
    filled.open(operator, "/boards/epic/1")
    operator.get_by_text("New task").click()
    operator.get_by_label("Title").fill("Third")
    operator.get_by_role("button", name="Create").click()
    operator.get_by_role("link", name="Third").click()
    operator.wait_for_url(f"{filled.url}/tasks/*")
    operator.get_by_label("Give to").select_option("tester")
    operator.get_by_role("button", name="Give").click()
    expect(operator.get_by_text("held by tester")).to_be_visible()
    operator.locator('form[action="/act/task_comment"] textarea').fill("**Well** done")
    operator.get_by_role("button", name="Write").click()
    expect(operator.locator(".prose strong")).to_have_text("Well")
    operator.get_by_label("Move to").select_option("PENDING")
    operator.get_by_role("button", name="Move").click()
    expect(operator.get_by_text("held by tester")).to_have_count(0)
    operator.once("dialog", lambda dialog: dialog.accept())
    operator.get_by_role("button", name="Delete").click()
    operator.get_by_role("button", name="Restore").click()
    expect(operator.get_by_role("button", name="Delete")).to_be_visible()
    expect(operator.locator(".graph")).to_have_count(0)
    filled.open(operator, "/tasks/2")
    expect(operator.locator(".graph a")).to_have_count(2)


def test_a_loop_is_paused_spoken_to_and_stopped(filled: Desk, operator: Page) -> None:
    filled.open(operator, "/boards/loop/night")
    for words in ("iteration 0 of 5", "of 2 h 0 min", "0 of 90,000 tokens", "$0.00 of $2.50"):
        expect(operator.get_by_label("The loop")).to_contain_text(words)
    operator.get_by_role("button", name="Pause").click()
    expect(operator.get_by_role("button", name="Go on")).to_be_visible()
    operator.get_by_label("Say something to night").fill("Mind the tests")
    operator.get_by_role("button", name="Say").click()
    expect(operator.get_by_text("Done")).to_be_visible()
    operator.once("dialog", lambda dialog: dialog.accept())
    operator.get_by_role("button", name="Stop").click()
    until(lambda: filled.ask("run_show", run="night")["wanted"] == "stop")


def test_the_log_is_filtered_opened_and_exported(filled: Desk, operator: Page) -> None:
    filled.open(operator, "/log")
    operator.get_by_label("Outcome").select_option("PERMISSION_DENIED")
    operator.get_by_role("button", name="Filter").click()
    expect(operator.locator("tbody tr")).to_have_count(1)
    with operator.expect_download() as download:
        operator.get_by_role("link", name="Export as JSON lines").click()
    rows = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    assert [(row["agent"], row["outcome"]) for row in rows] == [("agent:builder", "PERMISSION_DENIED")]
    operator.locator("tbody a[data-open]").click()
    operator.wait_for_url(f"{filled.url}/log/ref-*")
    expect(operator.locator("main")).to_contain_text("mcp__supervisor__list_agents")
    filled.open(operator, "/log?text=USE+A+QUEUE&outcome=decision")
    expect(operator.locator("tbody tr")).to_have_count(1)
    assert filled.open(operator, "/log?since=yesterday") == 422
    expect(operator.get_by_role("alert")).to_contain_text("'yesterday' is not a time")


def test_a_key_is_shown_once_and_revoked(filled: Desk, operator: Page) -> None:
    filled.open(operator, "/people")
    operator.get_by_text("Add an agent").click()
    operator.locator('form[action="/act/key_hire"]').get_by_label("Name").fill("newcomer")
    operator.get_by_role("button", name="Add, and show its key").click()
    token = operator.locator("#token").inner_text()
    assert token.startswith("sfa_")
    operator.get_by_role("link", name="Done").click()
    expect(operator.locator("main")).not_to_contain_text(token)
    call = {"toolName": "mcp__agent__get_status", "input": {}}
    bearer = {"Authorization": f"Bearer {token}"}
    assert httpx2.post(f"{filled.url}/mcp/execute", json=call, headers=bearer).status_code == 200
    operator.once("dialog", lambda dialog: dialog.accept())
    operator.get_by_role("button", name="Retire newcomer").click()
    expect(operator.locator("tr", has_text="newcomer").first).to_contain_text("retired")
    assert httpx2.post(f"{filled.url}/mcp/execute", json=call, headers=bearer).status_code == 401
    operator.get_by_role("button", name="New key for tester").click()
    assert operator.locator("#token").inner_text().startswith("sfa_")
    filled.open(operator, "/people")
    operator.once("dialog", lambda dialog: dialog.accept())
    operator.get_by_role("button", name="of lead").click()
    expect(operator.locator("tr", has_text="lead").filter(has_text="revoked")).to_have_count(1)


def test_a_dead_letter_is_tried_again(filled: Desk, operator: Page) -> None:
    floor = filled.server.floor.floor
    heard: list[str] = []
    floor.dispatcher._subscribers = {
        "later": Subscriber("later", frozenset({"decision.logged"}), inside=lambda _, told: heard.append(told.name))
    }
    filled.execute(
        "INSERT INTO delivery (workspace, event, subscriber, due_at, tries, error, dead_at)"
        " SELECT workspace, id, 'later', 1, 10, 'Nobody home', 1 FROM event WHERE name = 'decision.logged'"
    )
    filled.open(operator, "/figures")
    operator.get_by_role("button", name="again").click()
    expect(operator.get_by_text("None: everything that had to be told has been told.")).to_be_visible()
    until(lambda: heard == ["decision.logged"])


# Others


def test_a_reader_sees_everything_and_changes_nothing(filled: Desk, browser: Browser) -> None:
    filled.ask("key_add_user", name="looker", desk="reader")
    with at_the_desk(browser) as context:
        page = filled.enter(context, "looker")
        page.wait_for_url(f"{filled.url}/floor")
        for path in PAGES:
            expected = 404 if path.startswith("/lists/") else 200
            assert filled.open(page, path) == expected, path
            assert page.locator('main form[method="post"]').count() == 0, path
        assert filled.ask("inbox_waiting")["unreadCount"] == 2  # looking is not reading
        csrf = page.locator('meta[name="csrf"]').get_attribute("content")
        cookies = {cookie["name"]: cookie["value"] for cookie in context.cookies()}
        with httpx2.Client(base_url=filled.url, cookies=cookies) as client:
            for tool, form in {
                "epic_create": {"title": "x"},
                "key_issue": {"agent": "builder"},
                "inbox_ack": {"mailId": "mail-1"},
            }.items():
                assert client.post(f"/act/{tool}", data={**form, "csrf": csrf}).status_code == 403


def test_a_user_without_a_place_comes_no_further_than_the_own_list(shown: Desk, browser: Browser) -> None:
    with at_the_desk(browser) as context:
        page = shown.enter(context, "guest")
        page.wait_for_url(f"{shown.url}/todo")
        assert page.get_by_role("link", name="Log", exact=True).count() == 0
        for path in PAGES:
            response = page.goto(shown.url + path)
            assert response is not None
            assert response.status in (403, 404), path
        expect(page.locator("main")).to_contain_text("shopfloor desk NAME reader")
        cookies = {cookie["name"]: cookie["value"] for cookie in context.cookies()}
        assert httpx2.get(f"{shown.url}/live?page=/floor", cookies=cookies).status_code == 403


def test_a_place_taken_away_ends_what_is_open(filled: Desk, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shopfloor.web.stream.HEARTBEAT", 0.2)
    filled.ask("key_add_user", name="looker", desk="reader")
    with at_the_desk(browser) as context:
        page = filled.enter(context, "looker")
        filled.open(page, "/log")
        filled.ask("key_seat", name="looker", desk="none")
        page.wait_for_url(f"{filled.url}/signin**")
        filled.eye.wrong.clear()


def test_a_stream_that_is_refused_leads_to_sign_in(filled: Desk, operator: Page) -> None:
    operator.route("**/live?*", lambda route: route.fulfill(status=401, body="{}", content_type="application/json"))
    filled.execute("UPDATE token SET revoked_at = 1 WHERE kind = 'page'")
    operator.evaluate("dispatchEvent(new Event('pagehide')); dispatchEvent(new Event('pageshow'))")
    operator.wait_for_url(f"{filled.url}/signin**")


def test_what_is_no_page_is_not_found(shown: Desk, browser: Browser) -> None:
    with at_the_desk(browser) as context:
        page = shown.enter(context)
        for path in (
            "/log/ref-nonsense",
            "/tasks/99",
            "/tasks/0",
            "/boards/epic/77",
            "/boards/loop/nobody",
            "/inbox/mail-9",
        ):
            response = page.goto(shown.url + path)
            assert response is not None
            assert response.status == 404, path
            expect(page.get_by_role("alert")).to_be_visible()
        for address in ("/live?page=/nowhere", "/live?page=//evil.example/", "/live", "/live?page=/log/ref-x"):
            answer = page.request.get(shown.url + address)
            assert answer.status == 404, address


def test_a_server_that_stops_closes_its_streams(tmp_path: Path) -> None:
    floor = away(lambda: Shopfloor(Settings(project=tmp_path, port=0, embeddings="off")).__enter__())
    with served(floor) as server, httpx2.Client(base_url=server.url, timeout=30) as client:
        stream = client.stream("GET", "/live?page=/floor")
        lines = stream.__enter__().iter_lines()
        _until(lines, "event: ready")
        away(floor.floor.interrupt)
        assert list(lines)[-1:] != ["never"]
        stream.__exit__(None, None, None)
    away(floor.close)
