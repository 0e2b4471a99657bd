from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx2
import pytest
from argon2 import PasswordHasher
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from shopfloor.gateways import passwords
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.chat.conftest import model
from tests.chat.model import KEY
from tests.serving import ServedShopfloor, run_in_thread, serve_in_thread
from tests.web.desk_support import Desk, open_desk_context, populate, serve_desk
from tests.web.support import BROWSER_TIMEOUT_MS, PASSWORD, open_context

__all__ = ["model"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]


def _find_browser() -> str:
    """Return the path of the installed browser."""
    found = [path for name in BROWSERS if (path := shutil.which(name))]
    assert found, f"none of {', '.join(BROWSERS)} is installed"
    return found[0]


@pytest.fixture(autouse=True)
def _fast_password_hashes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use fast password hashes: the real ones are slow on purpose."""
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1))
    passwords._dummy_hash.cache_clear()
    yield
    passwords._dummy_hash.cache_clear()


@pytest.fixture
def shopfloor(tmp_path: Path) -> Iterator[Shopfloor]:
    with Shopfloor(Settings(project=tmp_path, port=0)) as shopfloor:
        yield shopfloor


@pytest.fixture
def server(shopfloor: Shopfloor) -> Iterator[ServedShopfloor]:
    shopfloor.add_user("customer")
    shopfloor.set_password("customer", PASSWORD)
    with serve_in_thread(shopfloor) as server:
        yield server


@pytest.fixture
def chat_server(tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedShopfloor]:
    """Serve a chat with a stub of a model."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    settings = Settings(project=tmp_path, port=0, chat_base_url=f"{model}/v1", chat_turns=0)
    shopfloor = run_in_thread(lambda: Shopfloor(settings).__enter__())
    for name in ("customer", "guest"):
        run_in_thread(partial(shopfloor.add_user, name))
        run_in_thread(partial(shopfloor.set_password, name, PASSWORD))
    with serve_in_thread(shopfloor) as server:
        yield server
    run_in_thread(shopfloor.close)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=BROWSER_TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_find_browser(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with open_context(browser, viewport={"width": 360, "height": 740}, timezone_id="Europe/Berlin") as context:
        yield context


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def visitor(server: ServedShopfloor) -> Iterator[httpx2.Client]:
    """Return an HTTP client that keeps cookies, for forms without scripts."""
    with httpx2.Client(base_url=server.url, timeout=BROWSER_TIMEOUT_MS / 1000) as client:
        yield client


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with serve_desk(tmp_path) as desk:
        yield desk


@pytest.fixture
def populated(desk: Desk) -> Desk:
    populate(desk)
    return desk


@pytest.fixture
def operator(populated: Desk, browser: Browser) -> Iterator[Page]:
    """Return a page of the signed-in operator."""
    with open_desk_context(browser) as context:
        yield populated.sign_in(context)
