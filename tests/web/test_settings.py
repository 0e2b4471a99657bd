"""Settings: members, tokens and notifications in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.serving import run_in_thread, serve_in_thread
from tests.web.desk_support import Desk, PageWatch, open_desk_context


def test_a_member_is_added_gets_a_role_and_is_removed(populated: Desk, operator: Page) -> None:
    populated.open_page(operator, "/settings/access")
    operator.get_by_text("Add a member").click()
    operator.get_by_label("Name").fill("anna")
    operator.locator("select[name=role]").select_option("viewer")
    operator.get_by_role("button", name="Add and show the token").click()
    expect(operator.get_by_role("heading", name="API token for anna")).to_be_visible()
    operator.get_by_role("link", name="Done").click()
    operator.wait_for_selector('#live[data-state="live"]')
    row = operator.locator(".list-row", has_text="anna").first
    expect(row.locator(".access-role")).to_have_text("viewer")
    operator.get_by_label("Actions for anna").click()
    operator.get_by_role("button", name="Set the role of anna to editor").click()
    expect(operator.get_by_role("status")).to_contain_text("anna is now editor")
    assert populated.ask("user_show", name="anna")["user"]["role"] == "editor"
    operator.get_by_role("button", name="Undo").click()
    expect(operator.get_by_role("status")).to_contain_text("Undone")
    assert populated.ask("user_show", name="anna")["user"]["role"] == "viewer"


@pytest.fixture
def notifying_desk(tmp_path: Path) -> Iterator[Desk]:
    """Serve a project that notifies a place which cannot be reached."""
    settings = Settings(project=tmp_path, port=0, embeddings="off", notify=["ntfy:http://127.0.0.1:1/topic"])
    shopfloor = run_in_thread(lambda: Shopfloor(settings).__enter__())
    with serve_in_thread(shopfloor) as server:
        yield Desk(server, PageWatch(server.url))
    run_in_thread(shopfloor.close)


def test_a_test_notification_says_which_places_took_it(notifying_desk: Desk, browser: Browser) -> None:
    with open_desk_context(browser) as context:
        page = notifying_desk.sign_in(context)
        notifying_desk.open_page(page, "/settings/notifications")
        expect(page.locator("main")).to_contain_text("ntfy 127.0.0.1:1")
        page.get_by_role("button", name="Send a test").click()
        expect(page.get_by_role("status")).to_contain_text("0 of 1 sent")
        expect(page.locator("main")).to_contain_text('notify = ["slack:https://hooks.slack.com/')
