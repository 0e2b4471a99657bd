"""What a visitor does by hand."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page

PASSWORD = "correct horse battery"


def token_of(html: str) -> str:
    found = re.search(r'name="csrf" content="([^"]+)"', html)
    assert found
    return found[1]


def sign_in(visitor: Any, name: str = "alice", password: str = PASSWORD) -> Any:
    form = {"csrf": token_of(visitor.get("/signin").text), "name": name, "password": password}
    return visitor.post("/signin", data=form)


def sign_in_on(page: Page, url: str, name: str = "alice", path: str = "/todo") -> None:
    page.goto(f"{url}{path}")
    page.fill("[name=name]", name)
    page.fill("[name=password]", PASSWORD)
    page.click("button.main")
    page.wait_for_url(f"{url}{path}")


def talk(page: Page, message: str) -> None:
    """Say something in the chat, and wait until it is answered."""
    asked = page.locator(".message.user").count()
    page.fill("textarea[name=message]", message)
    page.keyboard.press("Enter")
    page.locator(".message.user").nth(asked).wait_for()
    page.wait_for_selector("#messages[aria-busy=false]")
