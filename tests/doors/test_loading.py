"""Heavy kits are loaded on threads, a little after the start; those that import each other take turns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shopfloor.app import LOADING, build
from shopfloor.chat import model
from shopfloor.settings import Settings
from shopfloor.transports.http import Rooms
from tests.doors.server import PATIENCE


@pytest.fixture
def loads(tmp_path: Path) -> Iterator[list[Callable[[], Any]]]:
    """What loads the kit of the chat, which brings the MCP SDK with it, and what loads that for the endpoints."""
    floor = build(Settings(project=tmp_path))
    yield [model._kit, Rooms(floor)._make]
    floor.stop()


def test_whoever_loads_a_kit_waits_for_the_other(loads: list[Callable[[], Any]]):
    for load in loads:
        load()
        with LOADING:
            loading = threading.Thread(target=load)
            loading.start()
            loading.join(0.5)  # what does not wait has long ended by then: all is loaded
            assert loading.is_alive()
        loading.join(PATIENCE)
        assert not loading.is_alive()
