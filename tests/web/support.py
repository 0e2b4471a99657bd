"""What a user does in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page

PASSWORD = "correct horse battery"
BROWSER_TIMEOUT_MS = 180_000
"""Milliseconds that a browser may take for anything: machines are busy, and none of these tests is about time."""


@contextmanager
def open_context(browser: Browser, **options: Any) -> Iterator[BrowserContext]:
    """Open a browser context, and close it afterwards."""
    context = browser.new_context(**options)
    context.set_default_timeout(BROWSER_TIMEOUT_MS)
    try:
        yield context
    finally:
        context.close()


def find_form_token(html: str) -> str:
    found = re.search(r'name="csrf" content="([^"]+)"', html)
    assert found
    return found[1]


def sign_in(visitor: Any, name: str = "customer", password: str = PASSWORD) -> Any:
    form = {"csrf": find_form_token(visitor.get("/signin").text), "name": name, "password": password}
    return visitor.post("/signin", data=form)


def sign_in_in_browser(page: Page, url: str, name: str = "customer", path: str = "/todo") -> None:
    page.goto(f"{url}{path}")
    page.fill("[name=name]", name)
    page.fill("[name=password]", PASSWORD)
    page.click("button.primary")
    page.wait_for_url(f"{url}{path}")


def send_message(page: Page, message: str) -> None:
    """Say something in the chat, and wait until it is answered."""
    asked = page.locator(".message.user").count()
    page.fill("textarea[name=message]", message)
    page.keyboard.press("Enter")
    page.locator(".message.user").nth(asked).wait_for()
    page.wait_for_selector("#messages[aria-busy=false]")
