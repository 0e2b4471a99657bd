"""A runner retries while the store is unavailable: an outage must not cost the work of its agent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from shopfloor.errors import Unavailable
from shopfloor.runner import crew_store, run_store
from shopfloor.runner.crew_store import CrewStore
from shopfloor.runner.run_store import RunStore
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import crews, runs
from tests.operator_access import write_as_operator
from tests.postgres import PostgresServer

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL server that these tests may halt."""
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture
def shopfloor(tmp_path: Path, server: PostgresServer) -> Iterator[Shopfloor]:
    shopfloor = Shopfloor(Settings(project=tmp_path, database=server.create_database(), retries=0))
    write_as_operator(shopfloor, lambda uow: runs.create_run(uow, "r", spec="", project="", options="{}"))
    facts = {"title": "Files", "spec": "One", "project": ".", "branch": "b", "base": "c", "options": "{}"}
    write_as_operator(shopfloor, lambda uow: crews.create_crew(uow, "team", epic=None, workers=1, **facts))
    yield shopfloor
    server.halt()
    server.start()
    shopfloor.close()


async def test_calls_are_retried_until_the_outage_ends(
    shopfloor: Shopfloor, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    paused = asyncio.Event()

    class Pauses:
        """As many pauses as it takes; they set the event when an attempt has failed."""

        def __iter__(self) -> Iterator[float]:
            yield 0.05
            while True:
                paused.set()
                yield 0.05

    monkeypatch.setattr(run_store, "RETRY_PAUSE_SECONDS", Pauses())
    store = RunStore(shopfloor, "r")
    await store.drive("{}", None)
    await asyncio.to_thread(server.halt)
    writing, reading = asyncio.create_task(store.set_session("s-1")), asyncio.create_task(store.load_snapshot())
    await paused.wait()
    await asyncio.to_thread(server.start)
    await writing
    assert (await reading).next_number == 0
    assert (await store.load_snapshot()).run.session == "s-1"


async def test_an_outage_that_lasts_too_long_is_reported(
    shopfloor: Shopfloor, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_store, "RETRY_PAUSE_SECONDS", (0.01, 0.01))
    await asyncio.to_thread(server.halt)
    with pytest.raises(Unavailable):
        await RunStore(shopfloor, "r").load_snapshot()


async def test_the_driver_of_a_crew_waits_as_long_as_the_outage_lasts(
    shopfloor: Shopfloor, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    outlasted = asyncio.Event()
    sleep = asyncio.sleep

    async def note_pause(seconds: float) -> None:
        if seconds == crew_store.OUTAGE_PAUSE_SECONDS:
            outlasted.set()
        await sleep(0.02)

    monkeypatch.setattr(asyncio, "sleep", note_pause)
    store = CrewStore(shopfloor, "team")
    await store.drive("{}", None, retry_failed=False)
    server.halt()
    loading = asyncio.create_task(store.load_board())
    await outlasted.wait()
    server.start()
    assert (await loading).crew.name == "team"
