"""Heavy SDKs are imported on threads after the start, one at a time because they import each other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from starlette.applications import Starlette

from shopfloor.app import build
from shopfloor.chat import model
from shopfloor.engine import IMPORT_LOCK, Engine
from shopfloor.settings import Settings
from shopfloor.transports.http import McpEndpoints
from tests.transports.server import PATIENCE


@pytest.fixture
def shopfloor(tmp_path: Path) -> Iterator[Engine]:
    shopfloor = build(Settings(project=tmp_path))
    yield shopfloor
    shopfloor.stop()


def test_loading_an_sdk_waits_for_the_import_lock(shopfloor: Engine):
    """Use the SDK of the chat, which imports the MCP SDK, and the endpoints, which import it too."""
    for load in (model._load_sdk, McpEndpoints(shopfloor)._load):
        load()
        with IMPORT_LOCK:
            loading = threading.Thread(target=load)
            loading.start()
            loading.join(0.5)  # without the lock it would have ended, because everything is imported
            assert loading.is_alive()
        loading.join(PATIENCE)
        assert not loading.is_alive()


def test_failed_import_is_raised_instead_of_waited_for(shopfloor: Engine, monkeypatch: pytest.MonkeyPatch):
    def fail() -> NoReturn:
        raise ImportError("half of it is missing")

    async def open_twice(endpoints: McpEndpoints) -> None:
        async with endpoints.open(Starlette()):
            for _ in range(2):
                with pytest.raises(ImportError, match="half of it is missing"):
                    await asyncio.wait_for(endpoints.endpoint("/mcp"), PATIENCE)

    endpoints = McpEndpoints(shopfloor)
    monkeypatch.setattr(endpoints, "_load", fail)
    asyncio.run(open_twice(endpoints))
