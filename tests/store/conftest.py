from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shopfloor.store import Store, open_store
from tests.postgres import PostgresServer
from tests.store.support import MIGRATIONS


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/floor.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = open_store(url, migrations=MIGRATIONS)
    yield store
    store.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite://{tmp_path}/floor.db", migrations=MIGRATIONS)
    yield store
    store.close()
