from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture
def read(shopfloor: Shopfloor) -> Callable[..., Any]:
    return lambda path, **more: shopfloor.call("context", "read_file", {"path": path, **more})


@pytest.fixture
def grep(shopfloor: Shopfloor) -> Callable[..., Any]:
    return lambda pattern, **more: shopfloor.call("context", "grep_codebase", {"pattern": pattern, **more})


@pytest.fixture
def search(shopfloor: Shopfloor) -> Callable[..., Any]:
    return lambda query, **more: shopfloor.call("context", "context_search", {"query": query, **more})


@pytest.fixture
def record(shopfloor: Shopfloor) -> Callable[..., Any]:
    return lambda type, content, **more: shopfloor.call(
        "context", "record_discovery", {"type": type, "content": content, **more}
    )
