from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loop.support import Project, until


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project whose runs leave no process behind."""
    project = Project(tmp_path / "project")
    yield project
    until(lambda: not project.left_over())
