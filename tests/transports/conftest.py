from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.transports.server import WITH_FIXTURES, Server, serving
from tests.transports.team import Team


@pytest.fixture(scope="session")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A server on SQLite that requires credentials, with a token for a principal of each kind."""
    with serving(tmp_path_factory.mktemp("team")) as server:
        yield Team.create(server)


@pytest.fixture(scope="session")
def postgres_team(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[Team]:
    """The same team on PostgreSQL."""
    with serving(tmp_path_factory.mktemp("team"), database=postgres.create_database()) as server:
        yield Team.create(server)


@pytest.fixture(params=["sqlite", "postgres"])
def either_team(request: pytest.FixtureRequest) -> Team:
    """The team of each engine."""
    team: Team = request.getfixturevalue("team" if request.param == "sqlite" else "postgres_team")
    return team


@pytest.fixture(scope="session")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that has issued no credential yet, with the agents of the factory contract's examples."""
    with serving(tmp_path_factory.mktemp("open")) as server:
        server.agent("worker-123", "WORKER", "--no-token")
        server.agent("supervisor-456", "SUPERVISOR", "--no-token")
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def new_server(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Server]:
    """Return a function that makes servers on one clean database, without starting them."""
    database: str | None = None
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        database = server.create_database()

    def make(*arguments: str, **options: object) -> Server:
        return Server(tmp_path, *arguments, **{"database": database, **options})  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def fixture_team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A team on a server with the tools of fixtures.py and a limit of four concurrent calls."""
    folder = tmp_path_factory.mktemp("workshop")
    with serving(folder, program=WITH_FIXTURES, calls=4, retry_pause=0.01) as server:
        yield Team.create(server)
