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
from tests.serving import Served, away, served
from tests.web.desk_support import Desk, at_the_desk, opened, populate
from tests.web.support import PASSWORD, PATIENCE, looking

__all__ = ["model"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]


def _installed() -> str:
    """The browser of this system; there must be one."""
    found = [path for name in BROWSERS if (path := shutil.which(name))]
    assert found, f"none of {', '.join(BROWSERS)} is installed"
    return found[0]


@pytest.fixture(autouse=True)
def _cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hashing is slow on purpose; here it need not be, but for the tests of that."""
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1))
    passwords._nobodys.cache_clear()
    yield
    passwords._nobodys.cache_clear()


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Shopfloor]:
    with Shopfloor(Settings(project=tmp_path, port=0)) as floor:
        yield floor


@pytest.fixture
def server(floor: Shopfloor) -> Iterator[Served]:
    floor.add_user("customer")
    floor.set_password("customer", PASSWORD)
    with served(floor) as server:
        yield server


@pytest.fixture
def talking(tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A floor with a model behind its chat."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    settings = Settings(project=tmp_path, port=0, chat_base_url=f"{model}/v1", chat_turns=0)
    floor = away(lambda: Shopfloor(settings).__enter__())
    for name in ("customer", "guest"):
        away(partial(floor.add_user, name))
        away(partial(floor.set_password, name, PASSWORD))
    with served(floor) as server:
        yield server
    away(floor.close)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_installed(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with looking(browser, viewport={"width": 360, "height": 740}, timezone_id="Europe/Berlin") as context:
        yield context


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def visitor(server: Served) -> Iterator[httpx2.Client]:
    """A browser without eyes: it keeps cookies and sends forms."""
    with httpx2.Client(base_url=server.url, timeout=PATIENCE / 1000) as client:
        yield client


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with opened(tmp_path) as desk:
        yield desk


@pytest.fixture
def filled(desk: Desk) -> Desk:
    populate(desk)
    return desk


@pytest.fixture
def operator(filled: Desk, browser: Browser) -> Iterator[Page]:
    """The operator's page, signed in."""
    with at_the_desk(browser) as context:
        yield filled.enter(context)
