from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factory.team import Team


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """A floor with a supervisor, an orchestrator and two workers, where nothing runs by itself."""
    with Team(tmp_path) as team:
        yield team


@pytest.fixture
def team_anywhere(tmp_path: Path, database: str) -> Iterator[Team]:
    """The same, on each engine."""
    with Team(tmp_path, database=database) as team:
        yield team
