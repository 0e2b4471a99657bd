from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.postgres import PostgresServer
from tests.serving import Served, served


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/floor.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database()


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
