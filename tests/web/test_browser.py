"""The pages in a real browser, on a narrow screen."""

from __future__ import annotations

from typing import Any

from tests.serving import run_in_thread
from tests.web.support import PASSWORD, open_context, send_message, sign_in_in_browser

XSS = [
    "<script>window.__pwn=1</script>",
    "<img src=x onerror=window.__pwn=1>",
    '"><svg onload=window.__pwn=1>',
    "{{ 7*7 }}${window.__pwn=1}",
    "<a href=javascript:window.__pwn=1>x</a>",
]


def test_chatting_changes_the_list_beside_the_chat(chat_server, page):
    errors = _record_errors(page)
    sign_in_in_browser(page, chat_server.url, path="/chat")
    send_message(page, "Add a task to buy milk")
    page.locator("#list .title", has_text="Buy milk").wait_for()
    assert page.locator(".message.assistant").last.inner_text() == 'I added "Buy milk".'
    send_message(page, "I finished buying milk")
    page.locator("#list .task.done .title", has_text="Buy milk").wait_for()
    send_message(page, "Delete the milk thing")
    assert 'Delete "Buy milk" (task 1)?' in page.locator(".message.assistant").last.inner_text()
    send_message(page, "What does yes mean?")
    assert chat_server.titles("customer") == ["Buy milk"]
    send_message(page, "Delete the milk thing")
    page.click(".confirmation button:text('Delete')")
    page.locator("#list .empty").wait_for()
    assert chat_server.titles("customer") == []
    page.reload()
    page.locator("#conversations option").nth(1).wait_for(state="attached")
    page.select_option("#conversations", index=1)
    page.locator(".message.user", has_text="Add a task to buy milk").wait_for()
    page.click("#delete-conversation")
    page.locator("#messages:empty").wait_for()
    assert chat_server.user("customer").get("/api/conversations").json()["conversations"] == []
    assert errors == []


def test_the_list_updates_when_another_client_changes_it(chat_server, page):
    sign_in_in_browser(page, chat_server.url)
    chat_server.call("customer", "add_task", title="From elsewhere")
    page.locator(".title", has_text="From elsewhere").wait_for()
    chat_server.call("guest", "add_task", title="Guest's own")
    chat_server.call("customer", "complete_task", task_id=1)
    page.locator(".empty").wait_for()
    assert "Guest" not in page.content()


def test_two_users_chat_about_their_own_lists(chat_server, browser, page):
    with open_context(browser) as context:
        theirs = context.new_page()
        sign_in_in_browser(page, chat_server.url, path="/chat")
        sign_in_in_browser(theirs, chat_server.url, "guest", "/chat")
        send_message(page, "Add a task to buy milk")
        send_message(theirs, "Show my tasks")
        assert theirs.locator(".message.assistant").last.inner_text() == "Your list is empty."
        assert theirs.locator("#list .title").count() == 0


def test_tasks_are_added_edited_completed_deleted_and_restored_on_the_page(chat_server, page):
    errors = _record_errors(page)
    sign_in_in_browser(page, chat_server.url)
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
    page.click(".checkbox")
    page.locator(".empty").wait_for()
    page.click(".tabs a:text('Done')")
    page.click(".task summary")
    page.click(".task button:text('Delete')")
    page.locator(".deleted summary").click()
    page.click(".deleted button")
    page.locator(".task.done .title", has_text="Buy oat milk").wait_for()
    assert errors == []


def test_an_error_is_shown_and_the_form_keeps_its_text(chat_server, page):
    sign_in_in_browser(page, chat_server.url)
    page.fill("#add [name=title]", "   ")
    page.click("#add button")
    page.locator("#problem", has_text="Title must be between 1 and 200 characters").wait_for()


def test_hostile_text_is_shown_as_text(chat_server, page):
    sign_in_in_browser(page, chat_server.url, path="/chat")
    for text in XSS:
        chat_server.call("customer", "add_task", title=text, description=text)
        send_message(page, text)
    send_message(page, "Show my tasks")
    for path in ("/chat", "/todo"):
        page.goto(chat_server.url + path)
        assert page.locator("#list .title").all_inner_texts() == XSS[::-1]
        assert page.evaluate("() => window.__pwn === undefined")


def test_long_words_do_not_widen_the_page(chat_server, page):
    chat_server.call("customer", "add_task", title="x" * 200, description="y" * 1000)
    page.goto(f"{chat_server.url}/signin")
    assert _fits_the_screen(page)
    sign_in_in_browser(page, chat_server.url)
    for path in ("/todo", "/chat"):
        page.goto(chat_server.url + path)
        assert _fits_the_screen(page), path


def _fits_the_screen(page: Any) -> bool:
    wide = []
    for width in (360, 768, 1400):
        page.set_viewport_size({"width": width, "height": 740})
        wide.append(page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))
    return all(wide)


def test_the_list_works_with_the_keyboard_alone(chat_server, page):
    sign_in_in_browser(page, chat_server.url)
    page.focus("#add [name=title]")
    page.keyboard.type("Buy milk")
    page.keyboard.press("Enter")
    page.locator(".title", has_text="Buy milk").wait_for()
    page.focus(".checkbox")
    page.keyboard.press("Enter")
    page.locator(".empty").wait_for()


def test_a_late_response_to_add_does_not_move_the_focus(chat_server, page):
    held: list[tuple[Any, Any]] = []
    page.route(
        "**/todo",
        lambda route: held.append((route, route.fetch())) if route.request.method == "POST" else route.continue_(),
    )
    sign_in_in_browser(page, chat_server.url)
    page.fill("#add [name=title]", "Buy milk")
    page.keyboard.press("Enter")
    page.locator(".title", has_text="Buy milk").wait_for()  # shown by the event stream
    page.focus(".checkbox")
    route, response = held.pop()
    with page.expect_response("**/todo/list**"):
        route.fulfill(response=response)
    page.wait_for_function("() => document.querySelector('#add [name=title]').value === ''")
    assert page.evaluate("() => document.activeElement.className") == "checkbox"
    page.unroute("**/todo")
    page.keyboard.press("Enter")
    page.locator(".empty").wait_for()


def test_a_removed_users_open_page_goes_to_sign_in(chat_server, page, monkeypatch):
    monkeypatch.setattr("shopfloor.web.routes.SESSION_CHECK_SECONDS", 0.2)
    sign_in_in_browser(page, chat_server.url)
    run_in_thread(lambda: chat_server.shopfloor.remove_user("customer"))
    page.wait_for_url("**/signin**")
    page.go_back()
    page.wait_for_url("**/signin**")


def test_what_was_typed_stays_when_the_session_has_ended(chat_server, page, monkeypatch):
    monkeypatch.setattr("shopfloor.web.routes.SESSION_CHECK_SECONDS", 0.2)
    fields = {"/todo": "#add [name=title]", "/chat": "textarea[name=message]"}
    for path, field in fields.items():
        sign_in_in_browser(page, chat_server.url, path=path)
        page.fill(field, "Too late")
        run_in_thread(lambda: chat_server.shopfloor.set_password("customer", PASSWORD))  # ends the session
        page.locator("#problem", has_text="You are signed out.").wait_for()
        page.evaluate("document.getElementById('problem').hidden = true")
        page.press(field, "Enter")
        page.locator("#problem", has_text="You are signed out.").wait_for()
        page.wait_for_function("field => document.querySelector(field).value === 'Too late'", arg=field)
        assert page.locator(".message").count() == 0
    assert chat_server.titles("customer") == []


def test_a_task_is_sent_again_after_signing_in_in_another_tab(chat_server, page, context):
    page.route("**/todo/events", lambda route: route.abort())
    sign_in_in_browser(page, chat_server.url)
    page.fill("#add [name=title]", "In time")
    run_in_thread(lambda: chat_server.shopfloor.set_password("customer", PASSWORD))
    sign_in_in_browser(context.new_page(), chat_server.url)
    page.click("#add button")
    page.locator(".title", has_text="In time").wait_for()


def test_an_update_waits_until_the_pointer_is_released(chat_server, page):
    sign_in_in_browser(page, chat_server.url)
    chat_server.call("customer", "add_task", title="Buy milk")
    page.locator(".title", has_text="Buy milk").wait_for()
    page.hover(".checkbox")
    page.mouse.down()
    chat_server.call("customer", "add_task", title="From elsewhere")
    page.wait_for_timeout(500)
    assert page.locator(".title", has_text="From elsewhere").count() == 0
    page.mouse.up()
    page.locator(".title", has_text="From elsewhere").wait_for()
    page.locator(".title", has_text="Buy milk").wait_for(state="detached")
    assert [task["completed"] for task in chat_server.tasks("customer")] == [False, True]


def _record_errors(page: Any) -> list[str]:
    """Return a list that collects the errors of the browser."""
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    return found
