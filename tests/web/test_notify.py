"""Desktop notifications: only in browsers that subscribed, one per new item, with text as text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.desk_support import Desk, open_desk_context
from tests.workbench import wait_until

START, STOP = "Notify me on this desktop", "Stop desktop notifications"
RECORD_NOTIFICATIONS = """
window.notifications = [];
window.Notification = class {
  static permission = localStorage.getItem("notify") ? "granted" : "default";
  static async requestPermission() { return (Notification.permission = window.answer ?? "granted"); }
  constructor(title, options) { window.notifications.push([title, options.body]); }
};
"""


@pytest.fixture
def inbox(populated: Desk, browser: Browser) -> Iterator[Page]:
    """Open the operator's inbox in a browser that records its notifications."""
    with open_desk_context(browser, permissions=["notifications"]) as context:
        context.add_init_script(RECORD_NOTIFICATIONS)
        page = populated.sign_in(context)
        populated.open_page(page, "/inbox")
        yield page


def _press_notify(desk: Desk, page: Page, label: str, then: str) -> None:
    """Press the button in the settings, and return to the inbox."""
    desk.open_page(page, "/settings/notifications")
    page.get_by_role("button", name=label).click()
    expect(page.get_by_role("button", name=then)).to_be_visible()
    desk.open_page(page, "/inbox")


def _send_mail(desk: Desk, page: Page, subject: str) -> None:
    desk.call_as("tester", "mcp__mail__send", toHuman=True, subject=subject, body="x")
    expect(page.get_by_role("link", name=subject)).to_be_visible()


def test_a_new_mail_gives_one_notification_to_a_subscribed_browser(populated: Desk, inbox: Page) -> None:
    _press_notify(populated, inbox, START, STOP)
    populated.ask("inbox_decide", request=1, answer="deny")
    expect(inbox.locator(".inbox-row")).to_have_count(2)
    _send_mail(populated, inbox, "<b>News</b>")
    assert inbox.evaluate("notifications") == [["Shopfloor", "<b>News</b>\n3 need you"]]
    populated.ask("inbox_ack", mailId="mail-1")
    expect(inbox.locator(".inbox-row")).to_have_count(2)
    _press_notify(populated, inbox, STOP, START)
    _send_mail(populated, inbox, "More")
    assert inbox.evaluate("notifications") == []


def test_a_browser_that_did_not_subscribe_is_not_notified(populated: Desk, inbox: Page) -> None:
    _send_mail(populated, inbox, "News")
    assert inbox.evaluate("notifications") == []
    inbox.add_init_script("window.answer = 'denied'")
    _press_notify(populated, inbox, START, START)
    _send_mail(populated, inbox, "More news")
    assert inbox.evaluate("notifications") == []


def test_a_hidden_page_still_notifies(populated: Desk, inbox: Page) -> None:
    _press_notify(populated, inbox, START, STOP)
    inbox.evaluate(
        "Object.defineProperty(document, 'hidden', { get: () => true });"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    populated.call_as("tester", "mcp__mail__send", toHuman=True, subject="While away", body="x")
    wait_until(lambda: inbox.evaluate("notifications.length") == 1)
    # It names the newest item, not the first: a request and a question come before it.
    assert inbox.evaluate("notifications") == [["Shopfloor", "While away\n4 need you"]]
