from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.toolsets.factory.team import Team


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """A server with a supervisor, an orchestrator and two workers, without background threads."""
    with Team(tmp_path) as team:
        yield team


@pytest.fixture
def team_on_each_engine(tmp_path: Path, database: str) -> Iterator[Team]:
    """The same, on each engine."""
    with Team(tmp_path, database=database) as team:
        yield team
