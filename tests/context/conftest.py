from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shopfloor.serving import Shopfloor
from tests.context.support import make_project, open_floor


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return make_project(root)


@pytest.fixture
def floor(project: Path) -> Iterator[Shopfloor]:
    with open_floor(project) as floor:
        yield floor


@pytest.fixture(params=["sqlite", "postgres"])
def both(request: pytest.FixtureRequest, project: Path) -> Iterator[Shopfloor]:
    """A floor on each engine."""
    database = "" if request.param == "sqlite" else request.getfixturevalue("postgres_database")
    with open_floor(project, database=database) as floor:
        yield floor


@pytest.fixture
def read(floor: Shopfloor) -> Callable[..., Any]:
    return lambda path, **more: floor.call("context", "read_file", {"path": path, **more})


@pytest.fixture
def grep(floor: Shopfloor) -> Callable[..., Any]:
    return lambda pattern, **more: floor.call("context", "grep_codebase", {"pattern": pattern, **more})


@pytest.fixture
def search(floor: Shopfloor) -> Callable[..., Any]:
    return lambda query, **more: floor.call("context", "context_search", {"query": query, **more})


@pytest.fixture
def record(floor: Shopfloor) -> Callable[..., Any]:
    return lambda type, content, **more: floor.call(
        "context", "record_discovery", {"type": type, "content": content, **more}
    )
