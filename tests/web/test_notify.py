"""Notifications on the desktop: only for whoever wants them, one for each new thing, and text as text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.desk_support import Desk, at_the_desk
from tests.workbench import until

RECORD = """
window.told = [];
window.Notification = class {
  static permission = "default";
  static async requestPermission() { return (Notification.permission = window.answer ?? "granted"); }
  constructor(title, options) { window.told.push([title, options.body]); }
};
"""


@pytest.fixture
def inbox(filled: Desk, browser: Browser) -> Iterator[Page]:
    """The operator's inbox, in a browser that writes down what it would show."""
    with at_the_desk(browser, permissions=["notifications"]) as context:
        context.add_init_script(RECORD)
        page = filled.enter(context)
        filled.open(page, "/inbox")
        yield page


def _mail(desk: Desk, page: Page, subject: str) -> None:
    desk.agent("tester", "mcp__mail__send", toHuman=True, subject=subject, body="x")
    expect(page.get_by_role("link", name=subject)).to_be_visible()


def test_a_new_mail_gives_one_notification_to_whoever_wants_it(filled: Desk, inbox: Page) -> None:
    inbox.get_by_role("button", name="Notify me on this desktop").click()
    expect(inbox.get_by_role("button", name="Do not notify me any more")).to_be_visible()
    filled.ask("inbox_decide", request=1, answer="deny")
    expect(inbox.locator(".item")).to_have_count(2)
    _mail(filled, inbox, "<b>News</b>")
    assert inbox.evaluate("told") == [["Shopfloor", "<b>News</b>\n3 wait for you"]]
    filled.ask("inbox_ack", mailId="mail-1")
    expect(inbox.locator(".item")).to_have_count(2)
    inbox.get_by_role("button", name="Do not notify me any more").click()
    _mail(filled, inbox, "More")
    assert len(inbox.evaluate("told")) == 1


def test_nobody_is_notified_without_wanting_it(filled: Desk, inbox: Page) -> None:
    _mail(filled, inbox, "News")
    assert inbox.evaluate("told") == []
    inbox.evaluate("window.answer = 'denied'")
    inbox.get_by_role("button", name="Notify me on this desktop").click()
    _mail(filled, inbox, "More news")
    assert inbox.evaluate("told") == []
    expect(inbox.get_by_role("button", name="Notify me on this desktop")).to_be_visible()


def test_a_page_that_nobody_looks_at_still_notifies(filled: Desk, inbox: Page) -> None:
    inbox.get_by_role("button", name="Notify me on this desktop").click()
    inbox.evaluate(
        "Object.defineProperty(document, 'hidden', { get: () => true });"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    filled.agent("tester", "mcp__mail__send", toHuman=True, subject="While away", body="x")
    until(lambda: inbox.evaluate("told.length") == 1)
