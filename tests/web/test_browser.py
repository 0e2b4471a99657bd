"""The pages in a real browser, on a narrow screen."""

from __future__ import annotations

from typing import Any

from tests.serving import away
from tests.web.support import looking, sign_in_on, talk

XSS = [
    "<script>window.__pwn=1</script>",
    "<img src=x onerror=window.__pwn=1>",
    '"><svg onload=window.__pwn=1>',
    "{{ 7*7 }}${window.__pwn=1}",
    "<a href=javascript:window.__pwn=1>x</a>",
]


def test_sign_in_chat_and_see_the_list_change(talking, page):
    trouble = _trouble(page)
    sign_in_on(page, talking.url, path="/chat")
    talk(page, "Add a task to buy milk")
    page.locator("#list .title", has_text="Buy milk").wait_for()
    assert page.locator(".message.assistant").last.inner_text() == 'I added "Buy milk".'
    talk(page, "I finished buying milk")
    page.locator("#list .task.done .title", has_text="Buy milk").wait_for()
    talk(page, "Delete the milk thing")
    assert 'Delete "Buy milk" (task 1)?' in page.locator(".message.assistant").last.inner_text()
    page.click(".consent button:text('Yes')")
    page.locator("#list .empty").wait_for()
    assert talking.titles("customer") == []
    page.reload()
    page.locator("#conversations option").nth(1).wait_for(state="attached")
    page.select_option("#conversations", index=1)
    page.locator(".message.user", has_text="Add a task to buy milk").wait_for()
    page.click("#forget")
    page.locator("#messages:empty").wait_for()
    assert talking.user("customer").get("/api/conversations").json()["conversations"] == []
    assert trouble == []


def test_the_list_is_live_whoever_changes_it(talking, page):
    sign_in_on(page, talking.url)
    talking.call("customer", "add_task", title="From elsewhere")
    page.locator(".title", has_text="From elsewhere").wait_for()
    talking.call("guest", "add_task", title="Guest's own")
    talking.call("customer", "complete_task", task_id=1)
    page.locator(".empty").wait_for()
    assert "Guest" not in page.content()


def test_two_people_at_two_browsers(talking, browser, page):
    with looking(browser) as context:
        theirs = context.new_page()
        sign_in_on(page, talking.url, path="/chat")
        sign_in_on(theirs, talking.url, "guest", "/chat")
        talk(page, "Add a task to buy milk")
        talk(theirs, "Show my tasks")
        assert theirs.locator(".message.assistant").last.inner_text() == "Your list is empty."
        assert theirs.locator("#list .title").count() == 0


def test_add_edit_tick_delete_and_restore_by_hand(talking, page):
    trouble = _trouble(page)
    sign_in_on(page, talking.url)
    page.fill("#add [name=title]", "Buy milk")
    page.click("#add summary")
    assert page.input_value("#add [name=dueZone]") == "Europe/Berlin"
    page.fill("#add [name=dueAt]", "2026-12-24T18:00")
    page.click("#add button")
    page.locator(".facts", has_text="due 2026-12-24 18:00 Europe/Berlin").wait_for()
    page.click(".task summary")
    page.fill(".task [name=title]", "Buy oat milk")
    page.click(".task button:text('Save')")
    page.locator(".title", has_text="Buy oat milk").wait_for()
    page.click(".box")
    page.locator(".empty").wait_for()
    page.click(".tabs a:text('Done')")
    page.click(".task summary")
    page.click(".task button:text('Delete')")
    page.locator(".deleted summary").click()
    page.click(".deleted button")
    page.locator(".task.done .title", has_text="Buy oat milk").wait_for()
    assert trouble == []


def test_a_refusal_is_shown_without_losing_what_was_typed(talking, page):
    sign_in_on(page, talking.url)
    page.fill("#add [name=title]", "   ")
    page.click("#add button")
    page.locator("#problem", has_text="Title must be between 1 and 200 characters").wait_for()


def test_text_of_others_is_text(talking, page):
    sign_in_on(page, talking.url, path="/chat")
    for text in XSS:
        talking.call("customer", "add_task", title=text, description=text)
        talk(page, text)
    talk(page, "Show my tasks")
    for path in ("/chat", "/todo"):
        page.goto(talking.url + path)
        assert page.locator("#list .title").all_inner_texts() == XSS[::-1]
        assert page.evaluate("() => window.__pwn === undefined")


def test_nothing_sticks_out(talking, page):
    talking.call("customer", "add_task", title="x" * 200, description="y" * 1000)
    page.goto(f"{talking.url}/signin")
    assert _fits(page)
    sign_in_on(page, talking.url)
    for path in ("/todo", "/chat"):
        page.goto(talking.url + path)
        assert _fits(page), path


def _fits(page: Any) -> bool:
    wide = []
    for width in (360, 768, 1400):
        page.set_viewport_size({"width": width, "height": 740})
        wide.append(page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))
    return all(wide)


def test_the_keyboard_is_enough(talking, page):
    sign_in_on(page, talking.url)
    page.focus("#add [name=title]")
    page.keyboard.type("Buy milk")
    page.keyboard.press("Enter")
    page.locator(".title", has_text="Buy milk").wait_for()
    page.focus(".box")
    page.keyboard.press("Enter")
    page.locator(".empty").wait_for()


def test_a_page_that_hears_of_its_sign_out_goes_to_sign_in(talking, page, monkeypatch):
    monkeypatch.setattr("shopfloor.web.routes._LOOK_EVERY", 0.2)
    sign_in_on(page, talking.url)
    away(lambda: talking.floor.remove_user("customer"))
    page.wait_for_url("**/signin**")
    page.go_back()
    page.wait_for_url("**/signin**")


def test_who_is_signed_out_elsewhere_is_sent_to_sign_in(talking, page):
    page.route("**/todo/events", lambda route: route.abort())  # a page that hears of it would go by itself
    sign_in_on(page, talking.url)
    away(lambda: talking.floor.remove_user("customer"))
    page.fill("#add [name=title]", "Too late")
    page.click("#add button")
    page.wait_for_url("**/signin**")
    assert talking.titles("customer") == []


def test_what_is_about_to_be_clicked_stays_where_it_is(talking, page):
    sign_in_on(page, talking.url)
    talking.call("customer", "add_task", title="Buy milk")
    page.locator(".title", has_text="Buy milk").wait_for()
    page.hover(".box")
    page.mouse.down()
    talking.call("customer", "add_task", title="From elsewhere")
    page.wait_for_timeout(500)
    assert page.locator(".title", has_text="From elsewhere").count() == 0
    page.mouse.up()
    page.locator(".title", has_text="From elsewhere").wait_for()
    page.locator(".title", has_text="Buy milk").wait_for(state="detached")
    assert [task["completed"] for task in talking.tasks("customer")] == [False, True]


def _trouble(page: Any) -> list[str]:
    """What the browser complains about."""
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    return found
