from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factory.team import Team
from tests.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each engine."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/floor.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database()


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """A floor with a supervisor, an orchestrator and two workers, where nothing runs by itself."""
    with Team(tmp_path) as team:
        yield team


@pytest.fixture
def team_anywhere(tmp_path: Path, database: str) -> Iterator[Team]:
    """The same, on each engine."""
    with Team(tmp_path, database=database) as team:
        yield team
