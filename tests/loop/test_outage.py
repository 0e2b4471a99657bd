"""A runner sits out a store that cannot be reached for a while: the agent it drives must not be lost over that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from shopfloor.errors import Unavailable
from shopfloor.runner import book
from shopfloor.runner.book import Book
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import loops
from tests.postgres import PostgresServer

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of these tests' own, to be halted."""
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture
def shopfloor(tmp_path: Path, server: PostgresServer) -> Iterator[Shopfloor]:
    shopfloor = Shopfloor(Settings(project=tmp_path, database=server.create_database()))
    shopfloor.floor.administer(lambda work: loops.create(work, "r", spec="", project="", options="{}"))
    yield shopfloor
    server.halt()
    server.start()
    shopfloor.close()


async def test_an_outage_is_sat_out(shopfloor: Shopfloor, server: PostgresServer, monkeypatch: pytest.MonkeyPatch):
    paused = asyncio.Event()

    class Pauses:
        """As many as it takes; they tell when an attempt has failed."""

        def __iter__(self) -> Iterator[float]:
            yield 0.05
            while True:
                paused.set()
                yield 0.05

    monkeypatch.setattr(book, "PAUSES", Pauses())
    page = Book(shopfloor, "r")
    await asyncio.to_thread(server.halt)
    writing, reading = asyncio.create_task(page.opened("s-1")), asyncio.create_task(page.next_number())
    await paused.wait()
    await asyncio.to_thread(server.start)
    await writing
    assert await reading == 0
    assert (await page.run()).session == "s-1"


async def test_one_that_lasts_too_long_is_said_so(
    shopfloor: Shopfloor, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(book, "PAUSES", (0.01, 0.01))
    await asyncio.to_thread(server.halt)
    with pytest.raises(Unavailable):
        await Book(shopfloor, "r").run()
