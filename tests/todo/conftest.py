from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.serving import Served, served


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Shopfloor]:
    with Shopfloor(Settings(project=tmp_path, retry_pause=0)) as floor:
        yield floor


@pytest.fixture
def either_floor(tmp_path: Path, database: str) -> Iterator[Shopfloor]:
    """A floor on each engine in turn."""
    with Shopfloor(Settings(project=tmp_path, database=database, retry_pause=0)) as floor:
        yield floor


@pytest.fixture
def server(floor: Shopfloor) -> Iterator[Served]:
    with served(floor) as server:
        yield server
