"""Two agents of two vendors from npm in one crew: opencode plans, opencode and Qwen Code work, and all is merged.

`make test-agents` installs and runs them. Their model is a stub, so that nothing leaves this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.conftest import PROGRAMS, StubModel
from tests.runner.crew_support import CrewProject
from tests.runner.support import wait_until

NAMES = ("one.txt", "two.txt", "three.txt", "four.txt")

pytestmark = pytest.mark.agents


@pytest.fixture
def project(tmp_path: Path) -> Iterator[CrewProject]:
    project = CrewProject(tmp_path / "project")
    yield project
    wait_until(lambda: not project.list_live_processes())


def test_opencode_and_qwen_complete_an_epic_together(project: CrewProject, model: StubModel):
    project.write_spec(*(f"make {name}" for name in NAMES))
    file = project.root.parent / "crew.toml"
    file.write_text(f"""
[planner]
agent = "{PROGRAMS / "opencode"} acp"
permissions = "allow"

[[worker]]
agent = "{PROGRAMS / "opencode"} acp"
permissions = "allow"
iteration_time = "120s"

[[worker]]
agent = "{PROGRAMS / "qwen"} --acp"
permissions = "allow"
iteration_time = "120s"
""")
    crew = project.start_command(
        "crew", "start", "--spec", str(project.root / "SPEC.md"), "--name", "crew", "--crew", str(file), "--headless"
    )
    out, err = crew.communicate(timeout=500)
    assert crew.returncode == 0, f"{out[-6000:]}\n{err[-3000:]}\n{model.log.read_text()[-3000:]}"
    project.check_ledger()
    assert {name: project.show_file(name) for name in NAMES} == {name: f"content of {name}\n" for name in NAMES}
    tasks, _ = project.load()
    assert sorted(task.title for task in tasks) == sorted(f"make {name}" for name in NAMES)
    # Each of the two has done some of it, with its own tools and with those of the server.
    assert {task.assignee for task in tasks} == {"crew-worker-1", "crew-worker-2"}
    assert {task.comments for task in tasks} == {2}
