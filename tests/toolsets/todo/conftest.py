from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.serving import ServedShopfloor, serve_in_thread


@pytest.fixture
def shopfloor(tmp_path: Path) -> Iterator[Shopfloor]:
    with Shopfloor(Settings(project=tmp_path, retry_pause=0)) as shopfloor:
        yield shopfloor


@pytest.fixture
def server_on_each_engine(tmp_path: Path, database: str) -> Iterator[Shopfloor]:
    """A server on each engine in turn."""
    with Shopfloor(Settings(project=tmp_path, database=database, retry_pause=0)) as shopfloor:
        yield shopfloor


@pytest.fixture
def server(shopfloor: Shopfloor) -> Iterator[ServedShopfloor]:
    with serve_in_thread(shopfloor) as server:
        yield server
