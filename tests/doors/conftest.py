from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.doors.server import WITH_FIXTURES, Server, serving
from tests.doors.team import Team
from tests.postgres import PostgresServer


@pytest.fixture(scope="session")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A server that needs credentials, and people of every kind who have some; on SQLite."""
    with serving(tmp_path_factory.mktemp("team")) as server:
        yield Team.hired(server)


@pytest.fixture(scope="session")
def postgres_team(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[Team]:
    """The same on PostgreSQL."""
    with serving(tmp_path_factory.mktemp("team"), database=postgres.create_database()) as server:
        yield Team.hired(server)


@pytest.fixture(params=["sqlite", "postgres"])
def either_team(request: pytest.FixtureRequest) -> Team:
    """The team of each engine."""
    found: Team = request.getfixturevalue("team" if request.param == "sqlite" else "postgres_team")
    return found


@pytest.fixture(scope="session")
def open_floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that has issued no credential yet, with the agents of the factory contract's examples."""
    with serving(tmp_path_factory.mktemp("open")) as server:
        server.agent("worker-123", "WORKER", "--no-token")
        server.agent("supervisor-456", "SUPERVISOR", "--no-token")
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Server]:
    """Makes servers that are not started yet, each time on the same fresh database of one engine."""
    database: str | None = None
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        database = server.create_database()

    def make(*arguments: str, **options: object) -> Server:
        return Server(tmp_path, *arguments, **{"database": database, **options})  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A team with the tools of fixtures.py beside the floor's own, on a server that takes four calls at once."""
    folder = tmp_path_factory.mktemp("workshop")
    with serving(folder, program=WITH_FIXTURES, calls=4, retry_pause=0.01) as server:
        yield Team.hired(server)
