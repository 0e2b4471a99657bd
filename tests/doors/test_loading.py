"""Heavy kits are loaded on threads, a little after the start; those that import each other take turns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from starlette.applications import Starlette

from shopfloor.app import LOADING, Floor, build
from shopfloor.chat import model
from shopfloor.settings import Settings
from shopfloor.transports.http import Rooms
from tests.doors.server import PATIENCE


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Floor]:
    floor = build(Settings(project=tmp_path))
    yield floor
    floor.stop()


def test_whoever_loads_a_kit_waits_for_the_other(floor: Floor):
    """The kit of the chat brings the MCP SDK with it, which the endpoints load too."""
    for load in (model._kit, Rooms(floor)._make):
        load()
        with LOADING:
            loading = threading.Thread(target=load)
            loading.start()
            loading.join(0.5)  # what does not wait has long ended by then: all is loaded
            assert loading.is_alive()
        loading.join(PATIENCE)
        assert not loading.is_alive()


def test_what_cannot_be_loaded_is_told_and_not_waited_for(floor: Floor, monkeypatch: pytest.MonkeyPatch):
    def fail() -> NoReturn:
        raise ImportError("half of it is missing")

    async def asked(rooms: Rooms) -> None:
        async with rooms.open(Starlette()):
            for _ in range(2):
                with pytest.raises(ImportError, match="half of it is missing"):
                    await asyncio.wait_for(rooms.endpoint("/mcp"), PATIENCE)

    rooms = Rooms(floor)
    monkeypatch.setattr(rooms, "_make", fail)
    asyncio.run(asked(rooms))
