from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.support import Project, wait_until


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project whose runs leave no process behind."""
    project = Project(tmp_path / "project")
    yield project
    wait_until(lambda: not project.list_live_processes())
