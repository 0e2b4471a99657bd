"""What all tests share: one PostgreSQL server, a fresh database for each test, and a floor on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from shopfloor.settings import Settings
from tests.databases import Databases
from tests.postgres import PostgresServer
from tests.workbench import Workbench

ENGINES = ("sqlite", "postgres")


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("SHOPFLOOR_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def databases(postgres: PostgresServer) -> Databases:
    return Databases(postgres)


@pytest.fixture
def postgres_database(databases: Databases) -> Iterator[str]:
    """The address of a PostgreSQL database that has the schema and nothing else."""
    url = databases.take()
    yield url
    databases.give_back(url)


@pytest.fixture(params=ENGINES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a fresh database, once per engine."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/floor.db"
    return str(request.getfixturevalue("postgres_database"))


@pytest.fixture
def settings(tmp_path: Path, database: str) -> Settings:
    return Settings(project=tmp_path, database=database)


@pytest.fixture
def opened(settings: Settings) -> Iterator[Callable[..., Workbench]]:
    """Opens floors, as many as a test wants, on the same database unless other settings are given."""
    with ExitStack() as stack:

        def open_floor(*, started: bool = True, **parts: Any) -> Workbench:
            changed = Settings(**{**settings.model_dump(exclude_unset=True), **parts.pop("settings", {})})
            floor = Workbench(changed, **parts)
            stack.callback(floor.close)
            return floor.__enter__() if started else floor

        yield open_floor


@pytest.fixture
def floor(opened: Callable[..., Workbench]) -> Workbench:
    """A floor at work, with the tools of the workbench beside its own."""
    return opened()
