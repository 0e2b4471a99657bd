from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shopfloor.serving import Shopfloor
from tests.toolsets.context.support import make_project, open_floor


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return make_project(root)


@pytest.fixture
def shopfloor(project: Path) -> Iterator[Shopfloor]:
    with open_floor(project) as shopfloor:
        yield shopfloor


@pytest.fixture(params=["sqlite", "postgres"])
def both(request: pytest.FixtureRequest, project: Path) -> Iterator[Shopfloor]:
    """A server on each engine."""
    database = "" if request.param == "sqlite" else request.getfixturevalue("postgres_database")
    with open_floor(project, database=database) as shopfloor:
        yield shopfloor
