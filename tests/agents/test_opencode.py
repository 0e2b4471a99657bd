"""Run opencode, a third-party agent, on a small specification from planning to verified completion.

`make test-agents` installs and runs it. Its model is a stub, so that nothing leaves this machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.conftest import PROGRAMS, StubModel
from tests.runner.support import FILES, Project, wait_until

pytestmark = pytest.mark.agents


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path / "project")
    yield project
    wait_until(lambda: not project.list_live_processes())


def test_opencode_completes_a_specification(project: Project, model: StubModel):
    run = project.start_command(
        "run", "--spec", "SPEC.md", "--name", "run", "--headless", "--agent", f"{PROGRAMS / 'opencode'} acp",
        "--permissions", "allow", "--verify", _build_verify_command(), "--iteration-time", "120s",
    )  # fmt: skip
    out, err = run.communicate(timeout=400)
    assert run.returncode == 0, f"{out}\n{err[-3000:]}\n{model.log.read_text()[-3000:]}"
    assert project.list_tasks() == [(f"make {name}", "completed") for name in FILES]
    assert project.read_made_files() == {name: f"content of {name}\n" for name in FILES}
    assert [each.summary for each in project.list_iterations()] == [
        "planned 3 tasks", "did TAS-1", "did TAS-2", "did TAS-3",
    ]  # fmt: skip


def _build_verify_command() -> str:
    return f'{sys.executable} -c "import pathlib; [pathlib.Path(n).read_text() for n in {list(FILES)!r}]"'
