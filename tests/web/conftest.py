from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from shopfloor.gateways import passwords
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import people
from tests.chat.conftest import model
from tests.chat.model import KEY
from tests.serving import Served, away, served

__all__ = ["model"]

CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
PASSWORD = "correct horse battery"


kept = cache(passwords.hashed)
"""Hashing is slow on purpose; once is enough here."""


def give_password(floor: Shopfloor, name: str) -> None:
    floor.floor.administer(lambda work: people.set_password(work, name, kept(PASSWORD)))


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Shopfloor]:
    with Shopfloor(Settings(project=tmp_path, port=0)) as floor:
        yield floor


@pytest.fixture
def server(floor: Shopfloor) -> Iterator[Served]:
    floor.add_user("alice")
    give_password(floor, "alice")
    with served(floor) as server:
        yield server


@pytest.fixture
def talking(tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A floor with a model behind its chat."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    settings = Settings(project=tmp_path, port=0, chat_base_url=f"{model}/v1", chat_turns=0)
    floor = away(lambda: Shopfloor(settings).__enter__())
    for name in ("alice", "bob"):
        away(partial(floor.add_user, name))
        away(partial(give_password, floor, name))
    with served(floor) as server:
        yield server
    away(floor.close)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 360, "height": 740}, timezone_id="Europe/Berlin")
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture
def visitor(server: Served) -> Iterator[httpx2.Client]:
    """A browser without eyes: it keeps cookies and sends forms."""
    with httpx2.Client(base_url=server.url, timeout=30) as client:
        yield client
