"""What all tests share: one PostgreSQL server, a fresh database for each test, and a floor on it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from shopfloor.settings import Settings
from shopfloor.store.database import open_store
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
def migrated(postgres: PostgresServer) -> str:
    """The name of a database that has the schema and nothing else; the others are copies of it."""
    url = postgres.create_database()
    open_store(url).close()
    return url.rpartition("/")[2]


@pytest.fixture
def copied(postgres: PostgresServer, migrated: str) -> Iterator[Callable[[], str]]:
    """Makes databases with the schema and nothing else; they go with the test."""
    made: list[str] = []
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as admin:

        def copy() -> str:
            name = f"copy_{next(_numbers)}"
            admin.execute(f"CREATE DATABASE {name} TEMPLATE {migrated} STRATEGY FILE_COPY".encode())
            made.append(name)
            return postgres.url(name)

        yield copy
        for name in made:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(params=ENGINES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a fresh database, once per engine."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/floor.db"
    return str(request.getfixturevalue("copied")())


@pytest.fixture
def settings(tmp_path: Path, database: str) -> Settings:
    return Settings(project=tmp_path, database=database)


@pytest.fixture
def opened(settings: Settings) -> Iterator[Callable[..., Workbench]]:
    """Opens floors, as many as a test wants, on the same database unless other settings are given."""
    with ExitStack() as stack:

        def open_floor(**parts: Any) -> Workbench:
            changed = Settings(**{**settings.model_dump(exclude_unset=True), **parts.pop("settings", {})})
            return stack.enter_context(Workbench(changed, **parts))

        yield open_floor


@pytest.fixture
def floor(opened: Callable[..., Workbench]) -> Workbench:
    """A floor at work, with the tools of the workbench beside its own."""
    return opened()


_numbers = itertools.count(1)
