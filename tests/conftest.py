"""Fixtures of all tests: one PostgreSQL server, a clean database for each test, and a Shopfloor on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from shopfloor.settings import Settings
from tests.databases import Databases, SqliteTemplate
from tests.postgres import PostgresServer
from tests.workbench import Workbench

ENGINES = ("sqlite", "postgres")
MAX_ID_CHARS = 10_000
SLOW_TESTS = (
    "tests/chaos/",
    "tests/cli/",
    "tests/clients/",
    "tests/examples/",
    "tests/first_steps/",
    "tests/runner/",
    "tests/toolsets/factory/test_claim.py",
    "tests/toolsets/factory/test_escalation.py",
    "tests/toolsets/factory/test_journey.py",
    "tests/transports/",
    "tests/web/",
)
"""Tests that start servers, agents or browsers."""

# A busy machine must not fail a test.
hypothesis.settings.register_profile(
    "shopfloor", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("shopfloor")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the settings of the developer's shell."""
    for name in [name for name in os.environ if name.startswith("SHOPFLOOR_")]:
        monkeypatch.delenv(name)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Reject long test ids, and let the workers of pytest-xdist begin with the slow tests."""
    # Pytest puts the id into the environment, and with a long one no child process can start.
    long = [item.nodeid[:100] for item in items if len(item.nodeid) > MAX_ID_CHARS]
    if long:
        raise pytest.UsageError(f"Give these parameters shorter ids: {', '.join(long)}")
    items[:] = spread_slow_tests(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def spread_slow_tests(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return the tests in an order in which each worker gets its share of the slow ones first.

    `--dist worksteal` cuts the list into one piece per worker, and lets idle workers take the ends of the others'
    pieces. In the order of the folders the slowest tests were last, where nothing was left to be taken: one worker ran
    for the last four minutes of eighteen.
    """
    modules: dict[str, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.nodeid.partition("::")[0], []).append(item)
    pieces: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for name, tests in modules.items():
        if name.startswith(SLOW_TESTS):
            min(pieces, key=len).extend(tests)
    quick = [item for name, tests in modules.items() if not name.startswith(SLOW_TESTS) for item in tests]
    for number, piece in enumerate(pieces):
        size = (len(quick) + sum(map(len, pieces[number:]))) // (workers - number)
        count = max(0, size - len(piece))
        piece.extend(quick[:count])
        del quick[:count]
    return [item for piece in pieces for item in piece] + quick


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
    """Return the URL of a PostgreSQL database that has the schema and no rows."""
    url = databases.take()
    yield url
    databases.give_back(url)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> SqliteTemplate:
    return SqliteTemplate(tmp_path_factory.mktemp("template"))


@pytest.fixture(params=ENGINES)
def database(request: pytest.FixtureRequest, sqlite_template: SqliteTemplate, tmp_path: Path) -> str:
    """Return the URL of a clean database, once per engine."""
    if request.param == "sqlite":
        return sqlite_template.copy(tmp_path / "floor.db")
    return str(request.getfixturevalue("postgres_database"))


@pytest.fixture
def settings(tmp_path: Path, database: str) -> Settings:
    return Settings(project=tmp_path, database=database)


@pytest.fixture
def open_workbench(settings: Settings) -> Iterator[Callable[..., Workbench]]:
    """Open any number of workbenches, on the same database unless other settings are given."""
    with ExitStack() as stack:

        def open_one(*, started: bool = True, **parts: Any) -> Workbench:
            changed = Settings(**{**settings.model_dump(exclude_unset=True), **parts.pop("settings", {})})
            shopfloor = Workbench(changed, **parts)
            stack.callback(shopfloor.close)
            return shopfloor.__enter__() if started else shopfloor

        yield open_one


@pytest.fixture
def shopfloor(open_workbench: Callable[..., Workbench]) -> Workbench:
    """Return a running Shopfloor with the toolset `bench`."""
    return open_workbench()
